# The smallest configuration that shows a whole run: terraform_data is built into the tool, so there is no
# provider to download and no cloud to reach.

variable "greeting" {
  description = "What to say. Change it and run again to see an update."
  type        = string
  default     = "hello"
}

resource "terraform_data" "greeting" {
  input = var.greeting
}

# Replaced, not updated, whenever the greeting changes: the plan shows it first and calls it high risk.
resource "terraform_data" "plaque" {
  input            = "engraved"
  triggers_replace = [var.greeting]
}

output "greeting" {
  description = "What was said."
  value       = terraform_data.greeting.output
}
