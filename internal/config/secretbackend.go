package config

import (
	"fmt"
	"maps"
	"net/url"
	"os"
	"slices"
	"strings"
)

// The words of HOLDFAST_TF_STATE_KEY_BACKEND that are no tags.
const (
	keyBackendAuto = "auto"
	keyBackendNone = "none"
)

// internalBackend is the tag of the OpenBao that stands beside the server: where it is set up, it is used without
// being named.
const internalBackend = "INTERNAL"

// kubernetesJWT is where a pod finds the token of its service account.
const kubernetesJWT = "/var/run/secrets/kubernetes.io/serviceaccount/token" //nolint:gosec // a path

// SecretBackend is an OpenBao or Vault, by tag. Its files are read by whoever logs in, as often as it does.
type SecretBackend struct {
	Addr      *url.URL
	Mount     string // of the Transit engine; "" for the usual one
	Namespace string
	CAFile    string

	Auth         string // token, approle or kubernetes
	AuthMount    string // "" for the method's own name
	TokenFile    string // token
	RoleIDFile   string // approle
	SecretIDFile string // approle; may be ""
	Role         string // kubernetes
	JWTFile      string // kubernetes
}

// addKeyBackend declares which key seals, and the backends that may hold it.
func addKeyBackend(s *Set, c *Server) {
	chosen := ""
	Add(s, &chosen, "TF_STATE_KEY_BACKEND", keyBackendAuto, "Whose key seals: the tag of a secret backend; none for the platform key always; "+
		"auto for the secret backend INTERNAL where it is set up, else the platform key.", Text)
	c.SecretBackends = map[string]SecretBackend{}
	field := func(name, help string, set func(b *SecretBackend, value string) error) {
		AddTagged(s, "SECRET_BACKEND_"+Tag+"_"+name, help, func(tag, value string) error {
			b := c.SecretBackends[tag]
			err := set(&b, value)
			c.SecretBackends[tag] = b
			return err
		})
	}
	text := func(of func(b *SecretBackend) *string) func(b *SecretBackend, value string) error {
		return func(b *SecretBackend, value string) error { *of(b) = value; return nil }
	}
	field("ADDR", "Address of an OpenBao or Vault, such as https://bao.example.com:8200. The tag names it; its keys' names are kept with what they seal.",
		func(b *SecretBackend, value string) (err error) { b.Addr, err = HTTPURL(value); return err })
	field("AUTH", "How to log in there: token (the default), approle or kubernetes.",
		func(b *SecretBackend, value string) (err error) {
			b.Auth, err = OneOf("token", "approle", "kubernetes")(value)
			return err
		})
	field("AUTH_MOUNT", "Mount of the login method, where it is not the method's name.", text(func(b *SecretBackend) *string { return &b.AuthMount }))
	field("TOKEN_FILE", "File with the token; read again when it changes.", text(func(b *SecretBackend) *string { return &b.TokenFile }))
	field("ROLE_ID_FILE", "File with the role id, for approle.", text(func(b *SecretBackend) *string { return &b.RoleIDFile }))
	field("SECRET_ID_FILE", "File with the secret id, for approle.", text(func(b *SecretBackend) *string { return &b.SecretIDFile }))
	field("ROLE", "Name of the role, for kubernetes.", text(func(b *SecretBackend) *string { return &b.Role }))
	field("JWT_FILE", "File with the service account's token, for kubernetes; default "+kubernetesJWT+".", text(func(b *SecretBackend) *string { return &b.JWTFile }))
	field("MOUNT", "Mount of the Transit engine; default transit.", text(func(b *SecretBackend) *string { return &b.Mount }))
	field("NAMESPACE", "Namespace that engine and login are in.", text(func(b *SecretBackend) *string { return &b.Namespace }))
	field("CA_FILE", "File with the authorities (PEM) that its certificate is checked against; default the system's.", text(func(b *SecretBackend) *string { return &b.CAFile }))
	AddCheck(s, func() []string { return c.checkKeyBackend(chosen) })
}

// checkKeyBackend fills in what follows from other settings, and complains of what is missing.
func (c *Server) checkKeyBackend(chosen string) (wrong []string) {
	for _, tag := range slices.Sorted(maps.Keys(c.SecretBackends)) {
		b := c.SecretBackends[tag]
		wrong = append(wrong, b.complete(Prefix+"SECRET_BACKEND_"+tag+"_")...)
		c.SecretBackends[tag] = b
	}
	_, internal := c.SecretBackends[internalBackend]
	switch tag := strings.ReplaceAll(strings.ToUpper(chosen), "-", "_"); {
	case chosen == keyBackendNone, chosen == keyBackendAuto && !internal:
		c.KeyBackend = ""
	case chosen == keyBackendAuto:
		c.KeyBackend = internalBackend
	default:
		c.KeyBackend = tag
		if _, known := c.SecretBackends[tag]; !known {
			wrong = append(wrong, fmt.Sprintf("%sTF_STATE_KEY_BACKEND names the secret backend %q, which is not set up: %s.", Prefix, chosen, howToSetUp(tag)))
		}
	}
	return wrong
}

func howToSetUp(tag string) string {
	if !ValidTag(tag) {
		return "a tag has letters, digits and underscores"
	}
	return fmt.Sprintf("%sSECRET_BACKEND_%s_ADDR has no value", Prefix, tag)
}

// complete fills the defaults in and complains of what the login needs and does not have.
func (b *SecretBackend) complete(prefix string) (wrong []string) {
	need := func(name, value string) {
		if value == "" {
			wrong = append(wrong, fmt.Sprintf("%s%s is needed with %sAUTH=%s.", prefix, name, prefix, b.Auth))
		}
	}
	if b.Addr == nil {
		wrong = append(wrong, prefix+"ADDR is needed: other settings of this secret backend are given.")
	}
	if b.Auth == "" {
		b.Auth = "token"
	}
	files := map[string]string{"CA_FILE": b.CAFile}
	switch b.Auth {
	case "token":
		need("TOKEN_FILE", b.TokenFile)
		files["TOKEN_FILE"] = b.TokenFile
	case "approle":
		need("ROLE_ID_FILE", b.RoleIDFile)
		files["ROLE_ID_FILE"], files["SECRET_ID_FILE"] = b.RoleIDFile, b.SecretIDFile
	case "kubernetes":
		need("ROLE", b.Role)
		if b.JWTFile == "" {
			b.JWTFile = kubernetesJWT
		}
		files["JWT_FILE"] = b.JWTFile
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if path := files[name]; path != "" {
			if content, err := os.ReadFile(path); err != nil {
				wrong = append(wrong, fmt.Sprintf("%s%s: its file cannot be read: %v.", prefix, name, err))
			} else if len(strings.TrimSpace(string(content))) == 0 {
				wrong = append(wrong, fmt.Sprintf("%s%s: its file %s is empty.", prefix, name, path))
			}
		}
	}
	return wrong
}
