# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

SHELL := /bin/bash
MAKEFLAGS += --no-print-directory
.DEFAULT_GOAL := help
.SUFFIXES:

BIN := .venv/bin
# The parts of the test run, by name or group (make parts lists them).
PARTS ?=
# As .venv/bin/activate would do it, so that what a recipe starts finds ansible-playbook and the clone's collection.
# Bytecode goes to build/, so that the clone holds none.
ACTIVE = PATH="$(CURDIR)/$(BIN):$$PATH" ANSIBLE_COLLECTIONS_PATH="$(CURDIR)/.collections" \
	PYTHONPYCACHEPREFIX="$(CURDIR)/build/bytecode"
RUN_PARTS = @$(BIN)/python -B -m tools.test_run

##@ The two commands
.PHONY: demo test
demo: setup ## Boot a virtual 8-GPU node and converge it before your eyes
	@$(ACTIVE) tools/demo $(DEMO)
test: setup ## Linters, unit tests, and tests in virtual nodes; PARTS="lint unit" chooses
	$(RUN_PARTS) $(PARTS)

##@ Setting up
.PHONY: setup pins clean
setup: ## System packages (asks for sudo once), Python environments, link tree
	@tools/setup/setup
pins: setup ## Renew tools/setup/requirements/constraints.txt from the package index
	@$(BIN)/python -B -m tools.setup.pins
clean: ## Remove what the test runs made in the clone (environments stay; CLEAN=all removes them too)
	rm -rf build .ansible .hypothesis .mypy_cache .pytest_cache .ruff_cache tests/output
	@find plugins tests tools roles extensions -name __pycache__ -type d -prune -exec rm -rf {} +
	$(if $(filter all,$(CLEAN)),rm -rf .venv .venv-newest .collections)

##@ Parts of the test run
.PHONY: quick durations parts lint unit sanity e2e molecule hardware
quick: setup ## Lint of what was changed, its unit tests, and as many others as fit: two minutes
	@$(BIN)/python -B -m tools.test_run.quick
durations: setup ## Record how long the tests of the last "make unit" took, for make quick
	@$(BIN)/python -B -m tools.test_run.quick --record
parts: setup ## List the parts
	$(RUN_PARTS) --list
lint: setup ## ruff, mypy, ansible-lint, shellcheck, changelog, generated docs, the built collection
	$(RUN_PARTS) lint
unit: setup ## Unit tests, on ansible-core 2.19 and the newest
	$(RUN_PARTS) unit
sanity: setup ## ansible-test sanity, on both
	$(RUN_PARTS) sanity
e2e: setup ## Plays and faults in virtual nodes of Debian 12 and 13
	$(RUN_PARTS) e2e
molecule: setup ## The roles that have a scenario, in a virtual node: check, converge, idempotence, verify, absent
	$(RUN_PARTS) image soak_molecule
# BUILD_ONLY=1 builds the file and does not run it; HARDWARE has words for it, such as "-o FILE" or "--without active".
hardware: ## Check this machine's GPUs, read-only and without a network, and write one archive to send: see docs/hardware.md
	@$(if $(wildcard $(BIN)/python),$(BIN)/python,python3) -B -m tools.hardware $(if $(BUILD_ONLY),--build-only) $(HARDWARE)

##@ Extending the collection
.PHONY: new-resource new-check new-command
# The name is the word after the target.
NEW = $(word 2,$(MAKECMDGOALS))
new-resource new-check new-command: setup ## make new-resource NAME: create its files with a failing test, and list the next steps
	@$(BIN)/python -B -m tools.scaffold $(@:new-%=%) $(if $(NEW),$(NEW),$(NAME))
	@$(BIN)/python -B -m tools.docs
ifneq (,$(filter new-%,$(firstword $(MAKECMDGOALS))))
$(eval $(NEW):;@:)
endif

##@ Longer and other work
.PHONY: soak bench bundle cluster-init docs format changelog
soak: setup ## Longer fault and fuzz runs in virtual nodes: several hours
	$(RUN_PARTS) image
	$(RUN_PARTS) $(if $(PARTS),$(PARTS),soak)
bench: setup ## Measure against the plain shell recipe; the figures of docs/performance.md
	@set -e; for file in tests/bench/[a-z]*.py; do $(ACTIVE) VIRTUAL_NODE_RUN=bench $(BIN)/python "$$file" $(BENCH); done
# A declaration for nodes that have none, and files that it names as /opt/gpu_node/artefacts/NAME.
DECLARATION ?=
ARTEFACTS ?=
bundle: setup ## One file that converges a node without a network: build/bundle/gpu-node-bundle-*.tar.gz
	@$(BIN)/python -B -m tools.bundle $(if $(DECLARATION),--declaration $(DECLARATION)) $(if $(ARTEFACTS),--artefact $(ARTEFACTS))
cluster-init: bundle ## The CycleCloud project of that bundle, in build/cyclecloud
	@$(BIN)/python -B -m tools.cluster_init
docs: setup ## Write the generated parts of the documentation anew
	@$(BIN)/python -B -m tools.docs
	@$(BIN)/python -B -m tools.boards
format: setup ## Format the Python files
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .
changelog: setup ## Make CHANGELOG.rst for the version in galaxy.yml out of the fragments
	@$(ACTIVE) antsibull-changelog release

##@ Help
.PHONY: help
help: ## This list
	@awk 'BEGIN { FS = ":.*## " } \
		/^##@ / { printf "\n%s\n", substr($$0, 5) } \
		/^[a-z0-9_-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))
