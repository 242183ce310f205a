package source

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"holdfast.dev/holdfast/internal/fault"
)

func check(t testing.TB, files map[string]string, o Options) *Report {
	t.Helper()
	r, err := Check(tree(t, files), o)
	must(t, err)
	return r
}

// findings are the codes and places of what was found.
func findings(r *Report) []string {
	out := []string{}
	for _, f := range r.Findings {
		where := f.File
		if f.Line > 0 {
			where += ":" + strconv.Itoa(f.Line)
		}
		out = append(out, f.Code+" "+where)
	}
	return out
}

func expect(t *testing.T, r *Report, want ...string) {
	t.Helper()
	if got := findings(r); !slices.Equal(got, want) {
		t.Errorf("findings:\n got %q\nwant %q", got, want)
	}
	for _, f := range r.Findings {
		if f.What == "" || f.Why == "" || f.Hint == "" {
			t.Errorf("a finding without what, why or hint: %+v", f)
		}
	}
}

const signedIn = `provider "aws" {
  profile = "admin"
}
`

func TestH01_TofuShadowsTf(t *testing.T) {
	files := map[string]string{
		"main.tf": "# harmless", "main.tofu": signedIn, "x_override.tf": signedIn, "x_override.tofu": `locals { a = 1 }`,
		"j.tf.json": `{"provider":{"aws":{"profile":"x"}}}`, "j.tofu.json": `{}`, "both.tf": "", "both.tf.json": `{}`,
	}
	r := check(t, files, Options{})
	expect(t, r, "source_sign_in main.tofu:2")
	if want := []string{"both.tf", "both.tf.json", "j.tofu.json", "main.tofu", "x_override.tofu"}; !slices.Equal(r.Files, want) {
		t.Errorf("files %q, want %q", r.Files, want)
	}
	r = check(t, files, Options{Tool: Terraform})
	expect(t, r, "source_sign_in j.tf.json:1", "source_override x_override.tf:1", "source_sign_in x_override.tf:2")
	if want := []string{"both.tf", "both.tf.json", "j.tf.json", "main.tf", "x_override.tf"}; !slices.Equal(r.Files, want) {
		t.Errorf("files %q, want %q", r.Files, want)
	}
}

func TestH03_JSONRootMayBeAList(t *testing.T) {
	expect(t, check(t, map[string]string{"main.tf.json": `[{"resource":{}},{"data":[{"terraform_remote_state":{"x":{"backend":"local"}}}]},{"output":{}}]`}, Options{}),
		"source_remote_state main.tf.json:1")
	expect(t, check(t, map[string]string{"main.tf.json": `{"provider":[{"aws":[{"region":"a"},{"alias":"b","assume_role":[{"role_arn":"x"}]}]}]}`}, Options{}),
		"source_sign_in main.tf.json:1")
	expect(t, check(t, map[string]string{"main.tf.json": `[{"terraform":[{"encryption":[{"key_provider":[{"external":[{"k":[{}]}]}]}]}]}]`}, Options{}),
		"source_encryption main.tf.json:1")
	expect(t, check(t, map[string]string{"main.tf.json": `{"check":{"c":{"data":{"terraform_remote_state":{"x":{}}}}}}`}, Options{}),
		"source_remote_state main.tf.json:1")
}

func TestH05_RenamedProvider(t *testing.T) {
	expect(t, check(t, map[string]string{"main.tf": `
terraform {
  required_providers {
    innocent = { source = "terraform.io/builtin/terraform" }
  }
}
data "terraform_remote_state" "x" { provider = innocent }`}, Options{}), "source_remote_state main.tf:7")

	for _, source := range []string{"hashicorp/aws", "registry.opentofu.org/hashicorp/aws", "mirror.example/acme/AWS"} {
		r := check(t, map[string]string{
			"a.tf": `terraform {
  required_providers {
    cloud = { version = "> 1", source = "` + source + `" }
  }
}`,
			"b.tf": `provider "cloud" {
  token = ""
}`,
		}, Options{})
		expect(t, r, "source_provider_name a.tf:3", "source_sign_in b.tf:2")
	}
	// A provider that only calls itself aws.
	expect(t, check(t, map[string]string{"a.tf": `
terraform {
  required_providers {
    aws = { source = "acme/other" }
  }
}
provider "aws" {
  token = 1
}`}, Options{}), "source_sign_in a.tf:8")
	expect(t, check(t, map[string]string{"a.tf": `
terraform {
  required_providers {
    other = "~> 1.0"
    fine  = { source = "acme/fine" }
    aws   = { source = "hashicorp/aws" }
  }
}
provider "fine" { token = 1 }`}, Options{}))
}

func TestH07_TwoLevelsDownInJSON(t *testing.T) {
	r := check(t, map[string]string{
		"main.tf":          `module "m" { source = "./m" }`,
		"m/main.tf":        "module \"n\" { source = \"./n\" }\nprovider \"aws\" {\n  alias = \"x\"\n  secret_key = \"s\"\n}\nterraform {\n  backend \"s3\" {}\n}",
		"m/n/main.tf.json": `{"data":{"terraform_remote_state":{"x":{}}}}`,
		"m/azure.tf":       `provider "azurerm" {}`,
		"unused/main.tf":   signedIn,
	}, Options{})
	expect(t, r, "source_sign_in m/azure.tf:1", "source_sign_in m/main.tf:4", "source_remote_state m/n/main.tf.json:1")
	if r.Backend != nil {
		t.Errorf("a module's backend counts: %+v", r.Backend)
	}
	if len(r.Modules) != 2 || !r.Modules[1].Local {
		t.Errorf("modules %+v", r.Modules)
	}
	expect(t, check(t, map[string]string{
		"main.tf":   "provider \"aws\" {\n  alias = \"west\"\n  region = \"us-west-1\"\n}\nmodule \"m\" {\n  source = \"./m\"\n  providers = { aws.w = aws.west }\n}",
		"m/main.tf": "terraform {\n  required_providers {\n    aws = {\n      source = \"hashicorp/aws\"\n      configuration_aliases = [aws.w]\n    }\n  }\n}",
	}, Options{}))
}

func TestH08_FalseAlarms(t *testing.T) {
	expect(t, check(t, map[string]string{
		"main.tf": "# provider \"aws\" { profile = \"x\" }\n/* data \"terraform_remote_state\" \"x\" {} */\nlocals {\n  a = <<EOT\nprovider \"aws\" { profile = 1 }\nEOT\n}\n",
		"bom.tf":  "\xef\xbb\xbflocals {\r\n  b = 1\r\n}\r\n", ".hidden.tf": signedIn, "x.tf~": signedIn, "#y.tf#": signedIn, "X.TF": signedIn,
		"sub.tf/x.tf": signedIn, "sub/x.tf": signedIn, "notes.md": signedIn,
	}, Options{}))
	r := check(t, map[string]string{"main.tf": "", "bom.tf.json": "\xef\xbb\xbf{}", "wide.tf": "\xff\xfel\x00o\x00"}, Options{})
	codes := slices.Compact(findings(r))
	if len(codes) != 2 || codes[0] != "source_syntax bom.tf.json:1" || codes[1] != "source_syntax wide.tf:1" {
		t.Errorf("findings %q", codes)
	}
}

func TestH10_OverrideOrder(t *testing.T) {
	r := check(t, map[string]string{
		"main.tf":          "variable \"v\" {\n  type = string\n  default = 1\n}\nvariable \"w\" {}\noutput \"o\" { value = 1 }\nmodule \"m\" { source = \"git::https://host/a.git\" }",
		"override.tf.json": `{"variable":{"v":{"type":"number","sensitive":true}},"module":{"m":{"source":"./m"}}}`,
		"zz_override.tf":   "variable \"v\" {\n  type = list(\n    string)\n}\nvariable \"w\" { default = 2 }\noutput \"o\" { sensitive = true }",
		"m/main.tf":        "",
	}, Options{})
	expect(t, r)
	want := []Variable{
		{Name: "v", Type: "list( string)", Sensitive: true, File: "main.tf", Line: 1},
		{Name: "w", File: "main.tf", Line: 5},
	}
	if !slices.Equal(r.Variables, want) {
		t.Errorf("variables %+v\nwant %+v", r.Variables, want)
	}
	if len(r.Outputs) != 1 || !r.Outputs[0].Sensitive {
		t.Errorf("outputs %+v", r.Outputs)
	}
	if len(r.Modules) != 1 || r.Modules[0].Source != "./m" || !r.Modules[0].Local {
		t.Errorf("modules %+v", r.Modules)
	}
	expect(t, check(t, map[string]string{"main.tf": "", "a_override.tf": `terraform {
  backend "http" {}
}`, "override.tofu.json": `{"terraform":{"cloud":{}}}`, "b_override.tf": `provider "azurerm" {}`, "c_override.tf.json": `{"provider":{"google-beta":{}}}`, "d_override.tf": `provider "time" {}`}, Options{}),
		"source_override a_override.tf:2", "source_override b_override.tf:1", "source_override c_override.tf.json:1", "source_override override.tofu.json:1")
	expect(t, check(t, map[string]string{
		"main.tf": "", "backend_override.tofu": "", "holdfast_provenance_override.tf": "", "generated.auto.tfvars.json": "{}", "holdfast_imports.tf.json": "{}", "backend_override.md": "", "backend.tf": "",
	}, Options{}), "source_reserved backend_override.tofu", "source_reserved generated.auto.tfvars.json", "source_reserved holdfast_imports.tf.json", "source_reserved holdfast_provenance_override.tf")
}

func TestH14_ShippedToolFolder(t *testing.T) {
	files := map[string]string{
		"main.tf": "", ".terraform/providers/registry.opentofu.org/acme/p/1.0.0/linux_amd64": "-> /outside", "terraform.d/plugins/x": "", ".tofurc": "", ".terraformrc": "", "tofu.rc": "", "terraform.rc": "",
	}
	expect(t, check(t, files, Options{}),
		"source_steering .terraform", "source_link .terraform/providers/registry.opentofu.org/acme/p/1.0.0/linux_amd64", "source_steering .terraformrc",
		"source_steering .tofurc", "source_steering terraform.d", "source_steering terraform.rc", "source_steering tofu.rc")
	expect(t, check(t, map[string]string{"main.tf": "", ".terraform/providers/x": "-> /outside"}, Options{WorkingCopy: true}))
	if _, err := Pack(context.Background(), tree(t, map[string]string{"main.tf": "", ".terraform/x": "-> /outside"}), io.Discard, Limits{}); err != nil {
		t.Errorf("a working copy's own folder stops packing: %v", err)
	}
}

func TestG07_LinksInTheCheckout(t *testing.T) {
	expect(t, check(t, map[string]string{"ok.tf": "", "main.tf": "-> /etc/passwd"}, Options{}), "source_file main.tf", "source_link main.tf")
	expect(t, check(t, map[string]string{"real.tf": signedIn, "sub/x": "-> ..", "link.tf": "-> real.tf"}, Options{}), "source_sign_in link.tf:2", "source_sign_in real.tf:2")
	expect(t, check(t, map[string]string{"ok.tf": "", "deep/down/e": "-> /proc/self/environ"}, Options{}), "source_link deep/down/e")
	expect(t, check(t, map[string]string{"ok.tf": `module "m" { source = "./m" }`, "m": "-> /"}, Options{}), "source_link m")
}

func TestH15_ValueFiles(t *testing.T) {
	r := check(t, map[string]string{
		"main.tf":                "variable \"a\" {}\nvariable \"b\" {}\nvariable \"c\" { default = 1 }\nvariable \"d\" {}",
		"z.auto.tfvars":          `a = 1`,
		"terraform.tfvars.json":  `{"b": 2, "a": 3}`,
		"terraform.tfvars":       `a = 4`,
		"f.auto.tfvars.json":     `{"a": 1, "c": 2}`,
		"other.tfvars":           `d = 1`,
		".hidden.auto.tfvars":    `d = 1`,
		"sub/terraform.tfvars":   `d = 1`,
		"sub/not_read_either.tf": "",
	}, Options{})
	expect(t, r)
	var order []string
	for _, f := range r.ValueFiles {
		order = append(order, f.Path+" "+strings.Join(f.Variables, ","))
	}
	if want := []string{"terraform.tfvars a", "terraform.tfvars.json a,b", "f.auto.tfvars.json a,c", "z.auto.tfvars a"}; !slices.Equal(order, want) {
		t.Errorf("value files %q, want %q", order, want)
	}
	for _, tc := range []struct {
		inputs []string
		code   string
		says   string
	}{
		{[]string{"d"}, "", ""},
		{[]string{"b", "d"}, "", ""}, // the inputs are loaded after terraform.tfvars.json
		{[]string{"c", "d"}, "", ""}, // f.auto is loaded before them
		{[]string{"a", "d"}, "source_value_file", "z.auto.tfvars"},
		{[]string{}, "input_missing", `variable "d" has no value`},
		{[]string{"d", "e"}, "input_unknown", `input "e"`},
	} {
		err := r.CheckInputs(tc.inputs)
		if fault.Code(err) != tc.code || err != nil && (!strings.Contains(err.Error(), tc.says) || fault.From(err).Hint == "") {
			t.Errorf("CheckInputs(%q) = %v, want %q", tc.inputs, err, tc.code)
		}
	}
	expect(t, check(t, map[string]string{"main.tf": "", "terraform.tfvars": "a = {"}, Options{}), "source_syntax terraform.tfvars:1")
}

func TestH17_TestFiles(t *testing.T) {
	r := check(t, map[string]string{
		"main.tf": "", "a.tftest.hcl": signedIn, "a.tofutest.hcl": signedIn, "a.tftest.json": "{", "tests/x.tftest.hcl": signedIn, "tests/setup/main.tf": signedIn,
	}, Options{})
	expect(t, r)
	if !slices.Equal(r.Files, []string{"main.tf"}) {
		t.Errorf("files %q", r.Files)
	}
}

func TestSignIn(t *testing.T) {
	for provider, args := range map[string][]string{
		"aws": signIn["aws"], "awscc": signIn["awscc"], "google": signIn["google"], "google-beta": signIn["google"],
		"azurerm": append(slices.Clone(signIn["azurerm"]), "use_cli", "use_msi"),
	} {
		for _, arg := range args {
			for _, form := range []string{arg + ` = ""`, arg + ` = var.x`, arg + ` {}`, `dynamic "` + arg + "\" {\n    for_each = [1]\n    content {}\n  }"} {
				r := check(t, map[string]string{"main.tf": "provider \"" + provider + "\" {\n  " + form + "\n}"}, Options{})
				if got := findings(r); len(got) == 0 || got[0] != "source_sign_in main.tf:2" {
					t.Errorf("%s %q: %q", provider, form, got)
				}
			}
			r := check(t, map[string]string{"main.tf.json": `{"provider":{"` + provider + `":{"` + arg + `":null}}}`}, Options{})
			if got := findings(r); len(got) != 1 || got[0] != "source_sign_in main.tf.json:1" {
				t.Errorf("%s %q in JSON: %q", provider, arg, got)
			}
		}
	}
	expect(t, check(t, map[string]string{"main.tf.json": `{"provider":{"aws":{"dynamic":{"assume_role":{"for_each":[1],"content":{}}}}}}`}, Options{}), "source_sign_in main.tf.json:1")
	expect(t, check(t, map[string]string{"main.tf": `
provider "aws" {
  region = "eu-west-1"
  default_tags { tags = { profile = "x" } }
  endpoints { s3 = "x" }
}
provider "azurerm" {
  use_cli = false
  use_msi = "false"
  subscription_id = "x"
  features {}
}
provider "google" { project = "p" }
provider "other" { token = "x" }
resource "aws_x" "y" { profile = "x" }`}, Options{}))
	r := check(t, map[string]string{"main.tf": signedIn}, Options{})
	want := `main.tf:2:3: sets profile in provider "aws"; who signs in is the agent's: the template's runner, or the agent itself where it has none` + "\n      profile = \"admin\""
	if err := r.Err(); fault.Code(err) != "source_sign_in" || err.Error() != want {
		t.Errorf("Err() = %v\nwant %s", err, want)
	}
	if err := check(t, map[string]string{"main.tf": ""}, Options{}).Err(); err != nil {
		t.Errorf("no findings: %v", err)
	}
}

func TestEncryption(t *testing.T) {
	expect(t, check(t, map[string]string{"main.tf": `
terraform {
  encryption {
    key_provider "pbkdf2" "p" { passphrase = "0123456789abcdef" }
    method "aes_gcm" "m" { keys = key_provider.pbkdf2.p }
    state { method = method.aes_gcm.m }
  }
}`}, Options{}))
	expect(t, check(t, map[string]string{"main.tf": "", "x_override.tf": `
terraform {
  encryption {
    key_provider "external" "p" { command = ["sh"] }
    method "external" "m" {}
  }
}`}, Options{}), "source_encryption x_override.tf:4", "source_encryption x_override.tf:5")
}

func TestModulesOutside(t *testing.T) {
	r := check(t, map[string]string{"main.tf": `
module "a" { source = "../a" }
module "b" { source = "./x/../../b" }
module "c" { source = "/abs" }
module "d" { source = "file:///abs" }
module "e" { source = "git::https://host/r.git" }
module "f" { source = var.x }
module "g" { source = "acme/net/aws" }
module "h" { source = "./missing" }
module "i" {}
module "j" { source = "./" }`}, Options{})
	expect(t, r, "source_module main.tf:2", "source_module main.tf:3", "source_module main.tf:4", "source_module main.tf:5")
	var remote, computed []string
	for _, m := range r.Modules {
		switch {
		case !m.Literal:
			computed = append(computed, m.Name)
		case !m.Local:
			remote = append(remote, m.Source)
		}
	}
	if !slices.Equal(computed, []string{"f", "i"}) || !slices.Contains(remote, "git::https://host/r.git") || !slices.Contains(remote, "acme/net/aws") {
		t.Errorf("computed %q, remote %q", computed, remote)
	}
	loop := check(t, map[string]string{"main.tf": `module "a" { source = "./a" }`, "a/main.tf": `module "b" { source = "../" }`}, Options{})
	expect(t, loop)
}

func TestCheckFetched(t *testing.T) {
	dir := tree(t, map[string]string{
		"main.tf": signedIn, ".terraform/modules/m/main.tf": signedIn, ".terraform/modules/m/sub/x.tf": `data "terraform_remote_state" "x" {}`, ".terraform/modules/m/call.tf": `module "s" { source = "./sub" }`,
	})
	r, err := CheckFetched(dir, []string{".", ".terraform/modules/m", "../elsewhere"}, Options{})
	must(t, err)
	expect(t, r, "source_module ../elsewhere", "source_sign_in .terraform/modules/m/main.tf:2", "source_remote_state .terraform/modules/m/sub/x.tf:1")
}

func TestSyntaxErrors(t *testing.T) {
	r := check(t, map[string]string{"main.tf": "locals {\n  a = [1,\n  b = 2\n}\n", "ok.tf": signedIn, "j.tf.json": "{\n \"locals\": {,}\n}"}, Options{})
	var main, js *Finding
	for i, f := range r.Findings {
		switch {
		case f.File == "main.tf" && main == nil:
			main = &r.Findings[i]
		case f.File == "j.tf.json" && js == nil:
			js = &r.Findings[i]
		}
	}
	if main == nil || main.Line != 3 || main.Column == 0 || main.Snippet != "  b = 2" || main.Code != "source_syntax" {
		t.Errorf("main.tf: %+v", main)
	}
	if js == nil || js.Line != 2 || js.Snippet != ` "locals": {,}` {
		t.Errorf("j.tf.json: %+v", js)
	}
	if !slices.Contains(findings(r), "source_sign_in ok.tf:2") {
		t.Errorf("the other files are not checked: %q", findings(r))
	}
}

func TestNoConfiguration(t *testing.T) {
	for name, files := range map[string]map[string]string{
		"empty": {}, "other files": {"README.md": "", "sub/main.tf": ""}, "hidden": {".main.tf": ""},
	} {
		if _, err := Check(tree(t, files), Options{}); fault.Code(err) != "source_empty" || fault.From(err).Hint == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := Check(tree(t, map[string]string{"main.tofu": ""}), Options{Tool: Terraform}); fault.Code(err) != "source_empty" {
		t.Errorf("only .tofu for Terraform: %v", err)
	}
	if _, err := Check(filepath.Join(t.TempDir(), "none"), Options{}); fault.Code(err) != "source_unreadable" {
		t.Errorf("missing folder: %v", err)
	}
	file := filepath.Join(t.TempDir(), "f")
	must(t, os.WriteFile(file, nil, 0o600))
	if _, err := Check(file, Options{}); fault.Code(err) != "source_unreadable" {
		t.Errorf("a file: %v", err)
	}
}

func TestStateElsewhere(t *testing.T) {
	for _, tc := range []struct {
		name  string
		files map[string]string
		says  string
	}{
		{"none", map[string]string{"main.tf": ""}, ""},
		{"empty state", map[string]string{"main.tf": "", "terraform.tfstate": ""}, ""},
		{"state", map[string]string{"main.tf": "", "terraform.tfstate": "{}"}, "terraform.tfstate"},
		{"workspace", map[string]string{"main.tf": "", "terraform.tfstate.d/prod/terraform.tfstate": "{}"}, "terraform.tfstate.d/prod"},
		{"errored", map[string]string{"main.tf": "", "errored.tfstate": "{}"}, "errored.tfstate"},
		{"backend", map[string]string{"main.tf": "terraform {\n  backend \"s3\" {}\n}"}, `backend "s3" at main.tf:2`},
		{"backend in JSON", map[string]string{"main.tf.json": `{"terraform":{"backend":{"gcs":{}}}}`}, `backend "gcs"`},
		{"cloud", map[string]string{"main.tf": "terraform {\n  cloud {}\n}"}, `backend "cloud"`},
	} {
		r := check(t, tc.files, Options{WorkingCopy: true})
		err := r.StateElsewhere()
		if (err == nil) != (tc.says == "") || err != nil && !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s: %v, want %q", tc.name, err, tc.says)
		}
		expect(t, r)
	}
	if !check(t, map[string]string{"main.tf": "", ".terraform.lock.hcl": ""}, Options{}).LockFile {
		t.Error("the lock file is not seen")
	}
}

func TestDeclarations(t *testing.T) {
	r := check(t, map[string]string{
		"main.tf": "variable \"a\" {\n  type = object({\n    x = string\n  })\n  description = \"the a\"\n}\nvariable \"b\" {\n  sensitive = true\n  ephemeral = false\n  default = null\n}\n" +
			"variable \"c\" { sensitive = var.x }\nvariable \"d\" { ephemeral = true }\noutput \"o\" {\n  value = 1\n  description = \"the o\"\n}",
		"j.tf.json": `{"variable":{"e":{"type":"list(string)","default":[]},"f":{}},"output":{"p":{"sensitive":true}}}`,
	}, Options{})
	want := []Variable{
		{Name: "a", Type: "object({ x = string })", Description: "the a", Required: true, File: "main.tf", Line: 1},
		{Name: "b", Sensitive: true, File: "main.tf", Line: 7},
		{Name: "c", Sensitive: true, Required: true, File: "main.tf", Line: 12},
		{Name: "d", Ephemeral: true, Required: true, File: "main.tf", Line: 13},
		{Name: "e", Type: "list(string)", File: "j.tf.json", Line: 1},
		{Name: "f", Required: true, File: "j.tf.json", Line: 1},
	}
	if !slices.Equal(r.Variables, want) {
		t.Errorf("variables:\n got %+v\nwant %+v", r.Variables, want)
	}
	if !slices.Equal(r.Outputs, []Output{{"o", "the o", false}, {"p", "", true}}) {
		t.Errorf("outputs %+v", r.Outputs)
	}
}

func TestDeepNestingIsRefusedAndNotFatal(t *testing.T) {
	for name, src := range map[string]string{
		"brackets": "a = " + strings.Repeat("[", 2<<20), "braces": "a = " + strings.Repeat("{a=", 1<<20), "not": "a = " + strings.Repeat("!", 2<<20), "minus": "a = (" + strings.Repeat("-\n ", 1<<20),
		"conditions": "a = " + strings.Repeat("1?", 1<<20), "template": `a = "` + strings.Repeat(`${"`, 1<<20),
	} {
		for _, ext := range []string{"tf", "tf.json"} {
			if got := findings(check(t, map[string]string{"main." + ext: src}, Options{})); len(got) != 1 || !strings.HasPrefix(got[0], "source_nesting") {
				t.Errorf("%s in .%s: %q", name, ext, got)
			}
		}
	}
	// What is just within the limits is parsed without harm.
	for _, src := range []string{
		"a = " + strings.Repeat("[", 1000), "a = " + strings.Repeat("!", 10_000) + "true", "a = " + strings.Repeat("x?", 20_000), "a = " + strings.Repeat("x?x:", 20_000) + "x",
	} {
		_, _ = parseBytes(file{path: "x.tf"}, []byte(src))
	}
	expect(t, check(t, map[string]string{"main.tf": "", "big.tf": strings.Repeat("# x\n", 2<<20)}, Options{}), "source_file big.tf")
}

func TestPipesAreNotRead(t *testing.T) {
	dir := tree(t, map[string]string{"main.tf": ""})
	must(t, syscall.Mkfifo(filepath.Join(dir, "pipe.tf"), 0o600))
	r, err := Check(dir, Options{})
	must(t, err)
	expect(t, r, "source_file pipe.tf")
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{signedIn, `terraform { backend "s3" {} }`, `data "terraform_remote_state" "x" {}`, `variable "a" { type = list(string) }`, `module "m" { source = "./m" }`} {
		f.Add([]byte(seed), false)
	}
	for _, seed := range []string{`[{"data":[{"terraform_remote_state":{"x":{}}}]}]`, `{"provider":{"aws":[{"dynamic":{"assume_role":{}}}]}}`, `{"variable":{"a":{"type":"${x}"}}}`} {
		f.Add([]byte(seed), true)
	}
	f.Fuzz(func(t *testing.T, src []byte, json bool) {
		fl := file{path: "f.tf", json: json}
		p, found := parseBytes(fl, src)
		for _, x := range found {
			_ = x.Text()
		}
		if p == nil {
			if len(found) == 0 {
				t.Fatal("neither parsed nor refused")
			}
			return
		}
		c := newChecker(nil, Options{})
		names := providerNames([]*parsed{p})
		for _, b := range blocks(p.body, rootSchema) {
			switch b.Type {
			case "terraform":
				c.terraform(p, b, true)
			case "provider":
				c.provider(p, b, names, true)
			case "data":
				c.data(p, b)
			case "module":
				_, _ = moduleCall(p, b)
			}
		}
		c.declarations([]*parsed{p})
		c.report.sort()
		_ = c.report.Err()
	})
}
