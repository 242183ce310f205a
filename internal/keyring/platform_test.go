package keyring_test

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"holdfast.dev/holdfast/internal/audit"
	"holdfast.dev/holdfast/internal/fault"
	"holdfast.dev/holdfast/internal/keyring"
	"holdfast.dev/holdfast/internal/redact"
	"holdfast.dev/holdfast/internal/state"
)

// platformKey is a valid key that differs by n.
func platformKey(n byte) redact.Secret {
	raw := make([]byte, keyring.KeyBytes)
	for i := range raw {
		raw[i] = byte(i) ^ n
	}
	return redact.NewSecret(base64.StdEncoding.EncodeToString(raw))
}

func platform(t testing.TB, primary byte, earlier ...byte) *keyring.Platform {
	t.Helper()
	var old []redact.Secret
	for _, n := range earlier {
		old = append(old, platformKey(n))
	}
	p, err := keyring.NewPlatform(platformKey(primary), old...)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestDataKeyComesBack(t *testing.T) {
	p, ctx := platform(t, 1), t.Context()
	key, wrapped, by, err := p.NewDataKey(ctx, "org_1", "wri_1")
	if err != nil {
		t.Fatal(err)
	}
	if want := (state.Key{Kind: "platform", Name: p.ID(), Version: "1"}); by != want {
		t.Errorf("key is %+v, want %+v", by, want)
	}
	got, err := p.OpenDataKey(ctx, "org_1", "wri_1", by, wrapped)
	if err != nil || !bytes.Equal(got, key) {
		t.Fatalf("OpenDataKey = %x, %v; want %x", got, err, key)
	}
	if bytes.Contains(wrapped, key) {
		t.Error("the wrapped form holds the key in clear")
	}
	again, wrappedAgain, _, err := p.NewDataKey(ctx, "org_1", "wri_1")
	if err != nil || bytes.Equal(again, key) || bytes.Equal(wrappedAgain, wrapped) {
		t.Errorf("two data keys are equal (%v)", err)
	}
}

func TestDataKeyIsBound(t *testing.T) {
	p, ctx := platform(t, 1), t.Context()
	_, wrapped, by, err := p.NewDataKey(ctx, "org_1", "wri_1")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range [][2]string{{"org_2", "wri_1"}, {"org_1", "wri_2"}, {"org_1w", "ri_1"}, {"", "org_1wri_1"}} {
		if _, err := p.OpenDataKey(ctx, c[0], c[1], by, wrapped); fault.Code(err) != "sealed_damaged" {
			t.Errorf("opened for %q: %v, want sealed_damaged", c, err)
		}
	}
	for i := range wrapped {
		changed := bytes.Clone(wrapped)
		changed[i] ^= 1
		if _, err := p.OpenDataKey(ctx, "org_1", "wri_1", by, changed); fault.Code(err) != "sealed_damaged" {
			t.Errorf("byte %d changed: %v, want sealed_damaged", i, err)
		}
		if _, err := p.OpenDataKey(ctx, "org_1", "wri_1", by, wrapped[:i]); fault.Code(err) != "sealed_damaged" {
			t.Errorf("cut to %d bytes: %v, want sealed_damaged", i, err)
		}
	}
}

// An earlier key still opens what it wrapped, under whatever primary key; without it the error names it.
func TestKeysRotate(t *testing.T) {
	ctx, before := t.Context(), platform(t, 1)
	key, wrapped, by, err := before.NewDataKey(ctx, "o", "b")
	if err != nil {
		t.Fatal(err)
	}
	after := platform(t, 2, 1)
	if got, err := after.OpenDataKey(ctx, "o", "b", by, wrapped); err != nil || !bytes.Equal(got, key) {
		t.Errorf("after rotation: %x, %v; want %x", got, err, key)
	}
	if _, _, byNew, err := after.NewDataKey(ctx, "o", "b"); err != nil || byNew.Name != after.ID() || byNew.Name == by.Name {
		t.Errorf("the new primary key does not wrap: %+v, %v", byNew, err)
	}
	_, err = platform(t, 3).OpenDataKey(ctx, "o", "b", by, wrapped)
	if fault.Code(err) != "key_missing" || !strings.Contains(err.Error(), by.Name) {
		t.Errorf("without the key: %v, want key_missing naming %s", err, by.Name)
	}
	_, err = after.OpenDataKey(ctx, "o", "b", state.Key{Kind: "transit", Name: "org-1"}, wrapped)
	if fault.Code(err) != "key_missing" || !strings.Contains(err.Error(), "org-1") {
		t.Errorf("a transit key: %v, want key_missing naming org-1", err)
	}
}

// The id is printed and stored, the audit key is used elsewhere: neither may give the key or one another away.
func TestPurposesAreSeparate(t *testing.T) {
	p := platform(t, 1)
	raw, err := base64.StdEncoding.DecodeString(platformKey(1).Reveal())
	if err != nil {
		t.Fatal(err)
	}
	if len(p.ID()) != 8 || strings.Contains(fmt.Sprintf("%x", raw), p.ID()) {
		t.Errorf("id %q, want 8 hex digits that are no part of the key", p.ID())
	}
	audit := p.AuditKey()
	if len(audit) != 32 || bytes.Equal(audit, raw) {
		t.Errorf("audit key %x, want 32 bytes that are not the platform key", audit)
	}
	if bytes.Equal(audit, platform(t, 2).AuditKey()) {
		t.Error("two platform keys have one audit key")
	}
	audit[0] ^= 1
	if bytes.Equal(audit, p.AuditKey()) {
		t.Error("AuditKey hands out the keyring's own memory")
	}
}

func TestMalformedKeysAreRefused(t *testing.T) {
	good := platformKey(1)
	for name, bad := range map[string]string{
		"empty":         "",
		"not base64":    "correct horse battery staple, thirty-two",
		"short":         base64.StdEncoding.EncodeToString(make([]byte, 31)),
		"long":          base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{1, 2, 3}, 11)),
		"hex":           strings.Repeat("0123456789abcdef", 4),
		"repeated byte": base64.StdEncoding.EncodeToString(make([]byte, 32)),
		"url alphabet":  strings.NewReplacer("+", "-", "/", "_").Replace("+/+/+/+/+/+/+/+/+/+/+/+/+/+/+/+/+/+/+/+/+/A="),
	} {
		_, err := keyring.NewPlatform(redact.NewSecret(bad))
		if fault.Code(err) != "invalid_key" || !strings.Contains(err.Error(), "HOLDFAST_TF_STATE_ENCRYPTION_KEY") {
			t.Errorf("%s: %v, want invalid_key naming the setting", name, err)
		}
		if bad != "" && err != nil && strings.Contains(err.Error(), bad) {
			t.Errorf("%s: the error shows the key: %v", name, err)
		}
		_, err = keyring.NewPlatform(good, redact.NewSecret(bad))
		if fault.Code(err) != "invalid_key" || !strings.Contains(err.Error(), "HOLDFAST_TF_STATE_OLD_ENCRYPTION_KEYS") {
			t.Errorf("%s as an earlier key: %v, want invalid_key naming the setting", name, err)
		}
	}
	if _, err := keyring.NewPlatform(redact.NewSecret(good.Reveal() + "\n")); err != nil {
		t.Errorf("a key with the newline of its file: %v", err)
	}
}

// A new primary key must not make the audit log of the time before look forged.
func TestAuditChainSurvivesRotation(t *testing.T) {
	chain := func(p *keyring.Platform) *audit.Chain {
		t.Helper()
		c, err := audit.NewChain(p.AuditKey(), p.EarlierAuditKeys()...)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	first := chain(platform(t, 1)).Link(audit.Record{}, audit.Record{Org: "o", Action: "a"})
	after := chain(platform(t, 2, 1))
	second := after.Link(first, audit.Record{Org: "o", Action: "b"})
	if err := after.Check(audit.Record{}, first); err != nil {
		t.Errorf("a record from before the rotation: %v", err)
	}
	if err := after.Check(first, second); err != nil {
		t.Errorf("a record from after it: %v", err)
	}
	if err := chain(platform(t, 1)).Check(first, second); err == nil {
		t.Error("the earlier key still links")
	}
	first.Action = "x"
	if err := after.Check(audit.Record{}, first); err == nil {
		t.Error("a forged record passes")
	}
	if err := chain(platform(t, 3)).Check(audit.Record{}, second); err == nil {
		t.Error("a key that never linked anything checks it")
	}
}
