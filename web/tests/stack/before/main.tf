# The first of two configurations whose difference is a plan with every kind of change, made without a provider to
# download. Keys and values are what somebody hostile would choose.

variable "password" {
  type      = string
  sensitive = true
  default   = "canary-7f3a-never-shown"
}

resource "terraform_data" "deleted" {
  input = "one"
}

resource "terraform_data" "replaced" {
  input            = "plaque"
  triggers_replace = ["one"]
}

resource "terraform_data" "first" {
  triggers_replace = ["one"]
  lifecycle {
    create_before_destroy = true
  }
}

resource "terraform_data" "updated" {
  input = {
    text     = "one\ntwo\n"
    password = var.password
    markup   = "<script>alert(1)</script>"
  }
}

resource "terraform_data" "old_name" {
  input = "moved"
}

resource "terraform_data" "forgotten" {
  input = "forgotten"
}

output "endpoint" {
  value = "https://shop.example.org/?q=<b>&x=1"
}

output "password" {
  value     = var.password
  sensitive = true
}
