#!/bin/sh
# Records what both tools print, for the tests beside it: testdata/regenerate.sh NAME BINARY, e.g. opentofu tofu.
set -eu
name=$1 tool=$(command -v "$2")
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
export TF_CLI_CONFIG_FILE=/dev/null CHECKPOINT_DISABLE=1
cat >main.tf <<'TF'
variable "size" { default = "two" }
resource "terraform_data" "a" {
  input = "x"
  provisioner "local-exec" { command = "printf 'hello\\nworld\\n'" }
  lifecycle {
    precondition {
      condition     = var.size == "two"
      error_message = "size must be two"
    }
  }
}
output "o" { value = 12345678901234567890 }
output "s" {
  value     = "sensitive-value"
  sensitive = true
}
TF
"$tool" version -json >"$here/$name.version.json" 2>/dev/null
"$tool" init -input=false -no-color -reconfigure >/dev/null 2>&1
"$tool" plan -input=false -no-color -json -out=p.plan -lock-timeout=0s >"$here/$name.plan.jsonl"
"$tool" apply -input=false -no-color -json -lock-timeout=0s p.plan >"$here/$name.apply.jsonl"
"$tool" output -json -no-color >"$here/$name.output.json"
"$tool" plan -input=false -no-color -json -var size=three >"$here/$name.failed.jsonl" || true
sed -i 's/var.size ==/var.siz ==/' main.tf
"$tool" validate -json -no-color >"$here/$name.validate.json" || true
