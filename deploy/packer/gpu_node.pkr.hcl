# An image whose nodes make themselves ready at each boot, with no network. After make bundle:
#   packer init deploy/packer
#   packer build -only=azure-arm.gpu_node -var resource_group=images -var bundle=build/bundle/gpu-node-bundle-0.1.0.tar.gz deploy/packer
packer {
  required_plugins {
    azure = {
      source  = "github.com/hashicorp/azure"
      version = ">= 2.0.0"
    }
    qemu = {
      source  = "github.com/hashicorp/qemu"
      version = ">= 1.0.0"
    }
  }
}

variable "bundle" {
  type        = string
  description = "The bundle; its .sha256 lies beside it."
}

variable "resource_group" {
  type        = string
  default     = ""
  description = "azure-arm: where the image goes."
}

variable "location" {
  type        = string
  default     = "westeurope"
  description = "azure-arm: the region."
}

variable "base_image" {
  type        = string
  default     = ""
  description = "qemu: path or URL of a cloud image with the driver."
}

variable "base_image_checksum" {
  type        = string
  default     = ""
  description = "qemu: its checksum, as sha256:0123..."
}

variable "ssh_private_key_file" {
  type        = string
  default     = ""
  description = "qemu: a key that the base image lets in as ssh_username."
}

variable "ssh_username" {
  type        = string
  default     = "packer"
  description = "A user who may become root by sudo without a password."
}

# Microsoft's image for HPC has driver, fabric manager and InfiniBand; a machine without GPUs is enough to build on.
source "azure-arm" "gpu_node" {
  use_azure_cli_auth                = true
  location                          = var.location
  vm_size                           = "Standard_D8s_v5"
  os_type                           = "Linux"
  image_publisher                   = "microsoft-dsvm"
  image_offer                       = "ubuntu-hpc"
  image_sku                         = "2204"
  managed_image_resource_group_name = var.resource_group
  managed_image_name                = "gpu-node-${formatdate("YYYYMMDDhhmm", timestamp())}"
  ssh_username                      = var.ssh_username
}

source "qemu" "gpu_node" {
  iso_url              = var.base_image
  iso_checksum         = var.base_image_checksum
  disk_image           = true
  format               = "qcow2"
  accelerator          = "kvm"
  cpus                 = 4
  memory               = 8192
  headless             = true
  output_directory     = "build/image"
  vm_name              = "gpu-node.qcow2"
  ssh_username         = var.ssh_username
  ssh_private_key_file = var.ssh_private_key_file
  shutdown_command     = "sudo shutdown -P now"
}

build {
  sources = ["source.azure-arm.gpu_node", "source.qemu.gpu_node"]

  provisioner "shell" {
    inline = ["mkdir -m 0700 /var/tmp/gpu_node-image"]
  }

  provisioner "file" {
    sources     = [var.bundle, "${var.bundle}.sha256", "${path.root}/image.json"]
    destination = "/var/tmp/gpu_node-image/"
  }

  provisioner "shell" {
    script          = "${path.root}/image.sh"
    execute_command = "sudo sh '{{ .Path }}' /var/tmp/gpu_node-image"
  }

  # What is this machine's own belongs to no node: machine-id (and the DHCP lease by it), host keys, cloud-init's state. The key
  # that let ssh_username in stays in the image; have cloud-init or the base image take it out where that is too much.
  provisioner "shell" {
    only = ["qemu.gpu_node"]
    inline = [
      "if command -v cloud-init >/dev/null; then cloud-init clean --logs; fi",
      "rm -f /etc/ssh/ssh_host_*",
      "truncate -s 0 /etc/machine-id",
      "sync",
    ]
    execute_command = "sudo sh -e '{{ .Path }}'"
  }

  # As Azure wants an image; the agent's own way to forget the machine and the user.
  provisioner "shell" {
    only            = ["azure-arm.gpu_node"]
    inline          = ["/usr/sbin/waagent -force -deprovision+user", "sync"]
    execute_command = "sudo sh -e '{{ .Path }}'"
  }
}
