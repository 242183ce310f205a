# The second of two configurations; see before.

variable "password" {
  type      = string
  sensitive = true
  default   = "canary-91bc-never-shown"
}

resource "terraform_data" "replaced" {
  input            = "plaque"
  triggers_replace = ["two"]
}

resource "terraform_data" "first" {
  triggers_replace = ["two"]
  lifecycle {
    create_before_destroy = true
  }
}

resource "terraform_data" "updated" {
  input = {
    text     = "one\nthree\n"
    password = var.password
    markup   = "<img src=x onerror=alert(1)>"
  }
}

resource "terraform_data" "new_name" {
  input = "moved"
}

moved {
  from = terraform_data.old_name
  to   = terraform_data.new_name
}

removed {
  from = terraform_data.forgotten
  lifecycle {
    destroy = false
  }
}

resource "terraform_data" "keyed" {
  for_each = toset(["<img src=x onerror=alert(1)>", "two\nlines", "\u202egnp.exe", "\u001b[31mred"])
  input    = each.key
}

output "endpoint" {
  value = "https://shop.example.org/?q=<b>&x=2"
}

output "password" {
  value     = var.password
  sensitive = true
}
