// Package id makes and checks the identifiers of rows: a prefix that says what it names, an underscore, and 26
// characters that sort by time of making. They are made in Go, before anything is stored, so that sealed bytes
// can be bound to the row they will belong to.
package id

import (
	"crypto/rand"
	"encoding/binary"
	"strings"
	"time"
)

// The prefixes.
const (
	Organization = "org"
	User         = "usr"
	Token        = "tok"
	Account      = "acc"
	Agent        = "agt"
	State        = "sta"
	Write        = "wri" // one stored document of a state
	Object       = "obj" // sealed bytes that are no state: a packed source, a plan
	Lock         = "lck" // one taking of a lock, whatever id the client gave it
	Stack        = "stk"
	Run          = "run"
	Task         = "tsk"
	Attempt      = "att"
	Request      = "req"
	Backup       = "bak"
)

// Crockford's base 32 in lower case: no i, l, o, u; sorts as its value does.
const alphabet = "0123456789abcdefghjkmnpqrstvwxyz"

const length = 26

// New makes an identifier at now: 48 bits of milliseconds, then 80 random bits.
func New(prefix string, now time.Time) string {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:8], uint64(now.UnixMilli())<<16)
	// crypto/rand.Read never fails since Go 1.24: the process ends instead.
	_, _ = rand.Read(b[6:])
	var out [length]byte
	hi, lo := binary.BigEndian.Uint64(b[:8]), binary.BigEndian.Uint64(b[8:])
	for i := length - 1; i >= 0; i-- {
		out[i] = alphabet[lo&31]
		lo = lo>>5 | hi<<59
		hi >>= 5
	}
	return prefix + "_" + string(out[:])
}

// Valid reports whether s is an identifier with this prefix.
func Valid(prefix, s string) bool {
	rest, ok := strings.CutPrefix(s, prefix+"_")
	if !ok || len(rest) != length {
		return false
	}
	for _, c := range rest {
		if !strings.ContainsRune(alphabet, c) {
			return false
		}
	}
	return true
}
