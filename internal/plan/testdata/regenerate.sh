#!/bin/sh
# Records `show -json` of real plans for the tests beside it: testdata/regenerate.sh NAME BINARY, e.g. opentofu tofu.
# Each case is a configuration that is applied and one that is planned over it.
set -eu
name=$1 tool=$(command -v "$2")
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export TF_CLI_CONFIG_FILE=/dev/null CHECKPOINT_DISABLE=1 TF_VAR_token=canary-4711-token

# record CASE [plan flags]: reads the first configuration from before.tf and the second from after.tf.
record() {
	case=$1 && shift
	mkdir "$work/$case" && cd "$work/$case"
	cp "$work/before.tf" main.tf
	"$tool" init -input=false >/dev/null 2>&1
	"$tool" apply -input=false -auto-approve >/dev/null
	cp "$work/after.tf" main.tf
	"$tool" plan -input=false -out=p.plan "$@" >log 2>&1 || true
	"$tool" show -json p.plan >"$here/$name.$case.json" || { cat log; exit 1; }
}

empty() { : >"$work/$1.tf"; }

empty before
cat >"$work/after.tf" <<'TF'
resource "terraform_data" "a" {
  input = { list = ["x", "y"], number = 12345678901234567890, none = null }
}
output "o" { value = terraform_data.a.id }
TF
record create

cat >"$work/before.tf" <<'TF'
resource "terraform_data" "update" { input = { size = "small", tags = ["a"] } }
resource "terraform_data" "replace" { triggers_replace = "one" }
resource "terraform_data" "first" {
  triggers_replace = "one"
  lifecycle { create_before_destroy = true }
}
resource "terraform_data" "old" {}
resource "terraform_data" "forgotten" {}
resource "terraform_data" "deleted" { input = "gone" }
resource "terraform_data" "same" { input = "same" }
TF
cat >"$work/after.tf" <<'TF'
resource "terraform_data" "update" { input = { size = "large", tags = ["a", "b"] } }
resource "terraform_data" "replace" { triggers_replace = "two" }
resource "terraform_data" "first" {
  triggers_replace = "two"
  lifecycle { create_before_destroy = true }
}
resource "terraform_data" "new" {}
moved {
  from = terraform_data.old
  to   = terraform_data.new
}
removed {
  from = terraform_data.forgotten
  lifecycle { destroy = false }
}
resource "terraform_data" "imported" {}
import {
  to = terraform_data.imported
  id = "imported-id-1"
}
resource "terraform_data" "same" { input = "same" }
output "added" { value = "new" }
TF
record classes

cat >"$work/before.tf" <<'TF'
resource "terraform_data" "old" {}
TF
cat >"$work/after.tf" <<'TF'
resource "terraform_data" "new" {}
moved {
  from = terraform_data.old
  to   = terraform_data.new
}
TF
record move
cat >"$work/after.tf" <<'TF'
removed {
  from = terraform_data.old
  lifecycle { destroy = false }
}
TF
record forget
cat >"$work/after.tf" <<'TF'
resource "terraform_data" "old" {}
resource "terraform_data" "imported" {}
import {
  to = terraform_data.imported
  id = "imported-id-1"
}
TF
record import
cat >"$work/after.tf" <<'TF'
resource "terraform_data" "old" {}
output "o" { value = { a = "b" } }
TF
record output
cp "$work/before.tf" "$work/after.tf"
record nothing
record destroy -destroy
record replace -replace=terraform_data.old
record refresh -refresh-only

cat >"$work/after.tf" <<'TF'
resource "terraform_data" "old" {
  input = "changed"
}
resource "terraform_data" "bad" {
  lifecycle {
    precondition {
      condition     = terraform_data.old.id == "never"
      error_message = "it never is"
    }
  }
}
TF
record errored

cat >"$work/after.tf" <<'TF'
resource "terraform_data" "old" {}
check "warns" {
  assert {
    condition     = terraform_data.old.id == "never"
    error_message = "the check warns"
  }
}
TF
record check

cat >"$work/before.tf" <<'TF'
variable "token" {
  sensitive = true
  default   = "canary-4711-token"
}
resource "terraform_data" "s" { input = "before" }
TF
cat >"$work/after.tf" <<'TF'
variable "token" {
  sensitive = true
  default   = "canary-4711-token"
}
resource "terraform_data" "s" { input = var.token }
resource "terraform_data" "url" { input = nonsensitive("https://u:${var.token}@host/") }
resource "terraform_data" "encoded" { input = nonsensitive(base64encode("u:${var.token}")) }
resource "terraform_data" "each" {
  for_each = toset([nonsensitive(var.token)])
  input    = { (nonsensitive(var.token)) = "key" }
}
output "s" {
  value     = var.token
  sensitive = true
}
output "leak" { value = nonsensitive(var.token) }
TF
record sensitive

cat >"$work/before.tf" <<'TF'
resource "terraform_data" "kept" {
  triggers_replace = "one"
  lifecycle { destroy = false }
}
TF
sed 's/one/two/' "$work/before.tf" >"$work/after.tf"
if [ "$name" = opentofu ]; then record kept; fi
