# The verbs of trueup. `make` lists them. Each makes what it needs first: the virtual environment
# from the pinned requirements, and the system packages through playbooks/lab.yml.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.ONESHELL:
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

# What the caller may set.
VENV ?= .venv
PYTHON ?=
ARGS ?=
PYTEST_ARGS ?=
# Where a run of a scenario holds its lock: one for the machine, since the names of its nodes are.
LOCKS ?= /tmp
# The longest first, so that none of them runs alone at the end of `make test`.
SCENARIOS ?= vm vllm cluster default alternative devito replicas failures benchmarks local
TRUEUP_CACHE ?= $(or $(XDG_CACHE_HOME),$(or $(HOME),/root)/.cache)/trueup

# What the caller may set, as text: recipes read it from the environment, and make expands nothing in it.
texts := RESUME RUN PRICE AS_SIZE REGION OUTPUT RECIPE PARAMETERS MAX_USD_PER_HOUR KEEP
$(foreach name,$(texts),$(if $(filter-out undefined,$(origin $(name))),$(eval override $(name) := $$(value $(name)))$(eval export $(name))))

# An activated environment or a PYTHONPATH of the caller's must not reach into ours.
unexport VIRTUAL_ENV PYTHONPATH PYTHONHOME
# Some hundred processes of a `make test` import the same files: compiled once.
unexport PYTHONDONTWRITEBYTECODE
# Python would read each module that Ansible hands it byte by byte: a third of a task's time.
unexport PYTHONUNBUFFERED
override venv := $(abspath $(VENV))
export PATH := $(venv)/bin:$(PATH)
export TRUEUP_CACHE
export DO_NOT_TRACK := 1
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export ANSIBLE_NOCOWS := 1

check_cache := .cache/check
# What failed of a `make test`, one a line.
failures := $(check_cache)/failures
# How a line begins that says why: of Ansible, of pytest, of molecule.
reasons := ^(\[ERROR\]: |(fatal|failed): |FAILED |ERROR |CRITICAL |E   )
# Ansible's modules and what they import, compiled once for this machine and its nodes.
warm := $(TRUEUP_CACHE)/warm
# The scenarios that no lane of a `make test` has taken yet, one a line.
queue := $(check_cache)/queue
heading = printf '\n==== %s ====\n' $(1)

.PHONY: help
help: ## List the targets (this text)
	@echo 'make TARGET [NAME=value ...]'
	grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  \1\t\2/' | expand -t 16
	echo
	echo 'Values: ARGS="-e ..." (to ansible-playbook, pytest)  RESUME=last|RUN_ID  RUN=RUN_ID  OUTPUT=folder'
	echo '        PRICE=3.60 | AS_SIZE=Standard_HB120rs_v3 REGION=eastus (a machine outside Azure has no price of its own)'
	echo '        RECIPE=devito-hbv3  PARAMETERS=mine.yml  MAX_USD_PER_HOUR=20  KEEP=yes (machines stay until they expire)'
	echo '        SCENARIOS="local vm"  VENV=folder  PYTHON=python3.12'

# ---- set-up -------------------------------------------------------------------------------------

# $(call ensure_venv,controller|azure|test): the environment holds exactly these pins, or is made to. A
# stamp in it holds the checksum of the pins, of the interpreter and of where it stands, so that the
# second call costs some milliseconds and a moved or half-made environment is made anew.
define ensure_venv
	say() { printf '%s\n' "$$*" >&2; }
	may_install() { [ "$$(id -u)" = 0 ] || sudo -n true 2>/dev/null; }
	as_root() { if [ "$$(id -u)" = 0 ]; then "$$@"; else sudo -n "$$@"; fi; }
	new_enough() { "$$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }
	complete() { new_enough "$$1" && "$$1" -c 'import ensurepip, venv' 2>/dev/null; }
	command -v git >/dev/null || { say 'git is missing: sudo apt-get install git'; exit 1; }
	key=$$( (cat requirements/controller.txt; [ '$(1)' = controller ] || cat requirements/$(1).txt; \
	  cat pyproject.toml; echo '$(venv)' '$(CURDIR)') | sha256sum | cut -d' ' -f1)
	stamp='$(venv)/.trueup-$(1)'
	if ! { [ "$$(cat "$$stamp" 2>/dev/null)" = "$$key" ] && '$(venv)/bin/python' -c '' 2>/dev/null; }; then
	  # It would be emptied where the link leads.
	  if [ -L '$(venv)' ]; then say '$(venv) is a link: remove the link, or set VENV=folder'; exit 1; fi
	  # Never build an environment with its own interpreter, also when the caller has activated it.
	  PATH=$$(printf '%s' "$$PATH" | tr ':' '\n' | grep -vxF '$(venv)/bin' | paste -sd:)
	  base=
	  # The system's first: what distributions build takes an eighth less CPU than what pyenv builds.
	  for suits in complete new_enough; do
	    for candidate in $(or $(PYTHON),/usr/bin/python3 python3 python3.13 python3.12 python3.11); do
	      if $$suits "$$candidate"; then base=$$candidate; break 2; fi
	    done
	  done
	  if [ -z "$$base" ]; then
	    say 'Python 3.11 or newer is needed and $(or $(PYTHON),python3) is not: sudo apt-get install python3.11 python3.11-venv (or set PYTHON=...)'
	    exit 1
	  fi
	  if ! "$$base" -c 'import ensurepip, venv' 2>/dev/null; then
	    package=$$("$$base" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')
	    if may_install && command -v apt-get >/dev/null; then
	      say "Python's venv module is missing: installing $$package with apt"
	      as_root apt-get -qq update
	      as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq install --no-install-recommends -y "$$package" >/dev/null
	    else
	      say "Python's venv module is missing: sudo apt-get install $$package"
	      exit 1
	    fi
	  fi
	  say 'Installing requirements/$(1).txt into $(VENV)'
	  old=$$(cat '$(venv)/.trueup-place' 2>/dev/null || true)
	  if [ "$$old" != '$(venv)' ] || ! new_enough '$(venv)/bin/python'; then
	    "$$base" -m venv --clear '$(venv)'
	    echo '$(venv)' > '$(venv)/.trueup-place'
	  fi
	  '$(venv)/bin/python' requirements/install.py requirements/$(1).txt '$(TRUEUP_CACHE)/pip'
	  '$(venv)/bin/python' -m pip install --quiet --no-index --no-deps --no-build-isolation --editable .
	  echo "$$key" > "$$stamp"
	fi
endef

.PHONY: controller-venv azure-venv test-venv
controller-venv azure-venv test-venv: %-venv:
	@$(call ensure_venv,$*)

.PHONY: lab
lab: controller-venv ## Install system packages for a lab of containers (ARGS="-e lab_packages=test": also those for make test)
	@ansible-playbook playbooks/lab.yml $(ARGS)

# ---- the main job -------------------------------------------------------------------------------

# Shell functions of the recipes below.
define functions
	must_be_run() {
	  python -c 'import sys; from trueup_node.record import is_run_id; sys.exit(not is_run_id(sys.argv[1]))' "$$1" && return
	  printf "RUN=%q is no run's id, such as 20261120T091300Z-7c1e\n" "$$1" >&2
	  exit 1
	}
	# as_json NAME VALUE ...: for ansible-playbook -e.
	as_json() { python -c 'import json, sys; print(json.dumps(dict(zip(sys.argv[1::2], sys.argv[2::2]))))' "$$@"; }
endef

# $(call measure,ARGUMENTS): site.yml with them, then the report; leaves their statuses in $measured and $reported.
define measure
	mkdir -p .cache
	export TRUEUP_RUN_FILE="$$(mktemp '$(CURDIR)/.cache/last-run.XXXXXX')"
	# The second of two at once reports to a folder of its own. What a run leaves behind (ssh) must not hold the lock.
	exec 8>> .cache/report.lock
	second=
	flock --nonblock 8 || second=yes
	measured=0
	resume=()
	[ -z "$${RESUME-}" ] || resume=(-e "$$(as_json trueup_resume "$$RESUME")")
	ansible-playbook site.yml "$${resume[@]}" $(1) 8>&- || measured=$$?
	begun=$$(cat "$$TRUEUP_RUN_FILE")
	rm -f "$$TRUEUP_RUN_FILE"
	reported=0
	if [ -n "$$begun" ]; then
	  [ -z "$$second" ] || export OUTPUT="$${OUTPUT:-report-$$begun}"
	  TRUEUP_REPORT_RUN="$$begun" $(MAKE) report 8>&- || reported=$$?
	else
	  echo 'No run was begun, so there is nothing to report.' >&2
	fi
	if [ $$measured != 0 ]; then echo "ansible-playbook site.yml ended with status $$measured" >&2; fi
endef

.PHONY: run
run: controller-venv ## Configure, check and measure this machine (or ARGS="-i inventory"), then report
	@$(functions)
	ansible-playbook playbooks/lab.yml -e lab_packages=run
	$(call measure,$(ARGS))
	if [ $$measured != 0 ]; then exit $$measured; fi
	exit $$reported

.PHONY: morning
morning: controller-venv ## Install a daily health check as a timer, which reports changes (ARGS="-i inventories/mine --mail ops@example.org")
	@trueup morning --install $(ARGS)

.PHONY: azure
azure: azure-venv ## Create the machines of RECIPE on Azure, configure, check, measure, report, remove (docs/guides/azure_provision.md)
	@$(functions)
	if [ -z "$${RECIPE-}" ]; then
	  echo 'Azure is ready to be asked: az login, then make azure RECIPE=... with one of'
	  basename -s .yml -a catalog/azure_recipes/*.yml | sed 's/^/  /'
	  exit
	fi
	run=$${RUN:-$$(python -c 'import time; from trueup_node.record import new_run_id; print(new_run_id(time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())))')}
	must_be_run "$$run"
	state=$${TRUEUP_AZURE_STATE:-$(TRUEUP_CACHE)/azure}/$$run
	echo "Azure run $$run"
	# Ctrl-C ends what runs, and then what was made is removed; a second one ends that too.
	trap 'interrupted=130' INT TERM HUP
	interrupted= status=0 reported=0
	asked=(trueup_azure_run "$$run" trueup_azure_recipe "$$RECIPE")
	[ -z "$${PARAMETERS-}" ] || asked+=(trueup_azure_parameters "$$(realpath --canonicalize-missing --no-symlinks -- "$$PARAMETERS")")
	[ -z "$${MAX_USD_PER_HOUR-}" ] || asked+=(trueup_azure_max_usd_per_hour "$$MAX_USD_PER_HOUR")
	ansible-playbook playbooks/provision.yml -e "$$(as_json "$${asked[@]}")" || status=$$?
	if [ $$status = 0 ] && [ -z "$$interrupted" ]; then
	  $(call measure,-i "$$state/inventory" $(ARGS))
	  status=$$measured
	fi
	remove="ansible-playbook playbooks/teardown.yml -e trueup_azure_run=$$run"
	if [ ! -e "$$state/run.json" ]; then
	  echo 'Nothing was made on Azure.' >&2
	elif [ -n "$${KEEP-}" ]; then
	  echo "Kept until it expires, and billing: $$remove" >&2
	else
	  $$remove || { status=$$?; echo "Not everything is removed, and may bill: $$remove" >&2; }
	fi
	for said in $$interrupted $$status $$reported; do [ "$$said" = 0 ] || exit $$said; done

.PHONY: acceptance
acceptance: controller-venv ## Check on real machines what no test here could show (ARGS="-i inventory"; docs/untested.md)
	@ansible-playbook playbooks/acceptance.yml $(ARGS)

.PHONY: dist
dist: controller-venv ## Build the wheel and the source archive into dist/: the same bytes for the same commit
	@rm -f dist/trueup-*
	SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) python -m hatchling build -d dist

.PHONY: dist-release
dist-release: test-venv ## Prepare release VERSION=0.2.0: version, changelog, commit and tag; packages and SBOM in dist/
	@[ -z "$$(git status --porcelain)" ] || { echo 'Commit or remove your changes first (git status).' >&2; exit 1; }
	python requirements/release.py '$(VERSION)' "$$(date -u +%F)"
	git commit --quiet --all --message='build: release $(VERSION)'
	git tag --annotate 'v$(VERSION)' --message='trueup $(VERSION)'
	$(MAKE) --no-print-directory dist collection
	PYTHONPATH=tests python tests/sbom.py dist/sbom
	echo 'Tag v$(VERSION) is local: git push --follow-tags publishes it.'

.PHONY: collection
collection: controller-venv ## Write the Ansible collection trueup.azure_hpc to dist/ (docs/guides/collection.md)
	@python collection/build.py dist

.PHONY: release
release: ## Write HEAD into one file for machines that configure themselves (docs/guides/azure_sets.md)
	@commit=$$(git rev-parse --verify HEAD)
	[ -z "$$(git status --porcelain)" ] || echo 'What is not committed is not in it.' >&2
	# One commit without history; the same HEAD gives the same one.
	export GIT_{AUTHOR,COMMITTER}_NAME=trueup GIT_{AUTHOR,COMMITTER}_EMAIL=
	export GIT_{AUTHOR,COMMITTER}_DATE="$$(git show --no-patch --format=%cI HEAD)"
	alone=$$(git commit-tree 'HEAD^{tree}' -m "trueup $$commit")
	bare=$$(mktemp -d)
	trap 'rm -rf "$$bare"' EXIT
	git init --quiet --bare "$$bare"
	git push --quiet "$$bare" "$$alone:refs/heads/release"
	mkdir -p release
	file="$(CURDIR)/release/trueup-$${commit:0:12}.bundle"
	git -C "$$bare" bundle create --quiet "$$file" release
	sha256sum "$$file"

.PHONY: report
report: controller-venv ## Write the report of the last run (or RUN=run_id) to report/ (or OUTPUT=folder)
	@$(functions)
	run=$${TRUEUP_REPORT_RUN:-$${RUN-}}
	results=$${TRUEUP_RESULTS:-results}
	[ -n "$$run" ] || run=$$(python -c 'import sys; from trueup_node.record import run_counts; print(*[*run_counts(sys.argv[1])][-1:])' "$$results")
	if [ -z "$$run" ]; then echo "$$results holds no run yet: make run" >&2; exit 1; fi
	must_be_run "$$run"
	if [ -z "$$(find "$$results/$$run" -name '*.json' ! -name run.json -print -quit)" ]; then
	  echo "$$results/$$run holds no records: nothing was measured; what was skipped, and why, is said above and in its run.json" >&2
	  exit 1
	fi
	price=($${PRICE:+--price "$$PRICE"} $${AS_SIZE:+--size "$$AS_SIZE"} $${REGION:+--region "$$REGION"})
	trueup list "$$results/$$run"
	echo
	# What ran on one count only, or does no work that is paid for, is said so and is no failure.
	trueup scaling "$$results/$$run" || true
	echo
	trueup cost "$$results/$$run" "$${price[@]}" || true
	echo
	trueup report "$$results/$$run" --output "$${OUTPUT:-report}" "$${price[@]}"

# ---- checks -------------------------------------------------------------------------------------

.PHONY: test
test: test-venv ## Everything CI checks: lint, types, unit, contract, emulated cloud, molecule
	@$(call heading,'system packages')
	ansible-playbook playbooks/lab.yml -e lab_packages=test
	mkdir -p $(check_cache)
	rm -f $(failures)
	status=0
	trap 'exit 130' INT
	# What fails is named at the end; the others run all the same.
	check() { $(MAKE) "$$@" || { status=1; [ "$$1" = lane ] || echo "$$1" >> $(failures); }; }
	printf '%s\n' $(SCENARIOS) > $(queue)
	lanes=()
	trap 'for lane in "$${lanes[@]}"; do kill -- -$$lane 2>/dev/null || true; done' EXIT
	# Two beside the rest: an emulated machine, servers and jobs wait for much of their time.
	for lane in 1 2; do setsid $(MAKE) lane & lanes+=($$!); done
	check lint
	check types
	check unit
	check contract
	# The rest of it takes half an hour.
	check cloud PYTEST_ARGS='-k a_small_node'
	check lane
	for lane in "$${lanes[@]}"; do wait $$lane || status=1; done
	trap - EXIT
	for scenario in $(SCENARIOS); do cat "$(check_cache)/$$scenario.log"; done
	if [ $$status != 0 ]; then
	  # Of a long output often only the end is kept: it says why.
	  for name in $$(sed 's/.* //' $(failures)); do
	    [ -e "$(check_cache)/$$name.log" ] || continue
	    $(call heading,"what failed in $$name")
	    grep -aE -A 4 '$(reasons)' "$(check_cache)/$$name.log" | tail -n 60 || true
	  done
	  $(call heading,'make test failed in')
	  cat $(failures)
	  exit 1
	fi
	$(call heading,'make test passed')
	for log in unit contract cloud; do printf '%s: ' $$log; tail -n 1 $(check_cache)/$$log.log; done

# What `make test` runs three of: each takes a scenario, and then another one, until none is left.
.PHONY: lane
lane:
	@status=0
	while scenario=$$(flock $(queue).lock sh -c 'head -n 1 $(queue); sed -i 1d $(queue)'); [ -n "$$scenario" ]; do
	  $(MAKE) molecule SCENARIOS="$$scenario" > "$(check_cache)/$$scenario.log" 2>&1 || status=1
	  grep -aE '^(molecule .* took|skipped: )' "$(check_cache)/$$scenario.log" || true
	done
	exit $$status

.PHONY: check
check: test-venv ## The inner loop: lint, types, and unit without the modules marked slow, side by side
	@$(MAKE) -j 2 --output-sync=target lint types unit PYTEST_ARGS='-m "not slow"'

# What ansible-lint reads, directly or through modules and filters; group_vars is a link to a folder of it.
linted := . :!group_vars :!analysis :!bench :!docs :!tests/unit :!tests/contract :!tests/*.py :!*.md

.PHONY: lint
lint: test-venv ## ruff, vermin, yamllint, the words of the pages and ansible-lint (production profile), nothing skipped
	@$(call heading,'lint')
	ruff check .
	ruff format --check .
	vermin --quiet --no-tips --violations --target=3.9- module_utils library roles
	yamllint --strict .
	python tests/prose.py
	# Nine tenths of the time: not again while what it read when it passed is the same.
	passed=$(check_cache)/ansible-lint
	digest() {
	  git ls-files -coz --exclude-standard -- $(foreach path,$(linted),'$(path)') | xargs -0 sha256sum 2>/dev/null | sha256sum
	}
	key=$$(digest) || key=
	if [ -n "$$key" ] && [ "$$(cat $$passed 2>/dev/null)" = "$$key" ]; then
	  echo 'ansible-lint: passed before on these files'
	else
	  python tests/lint.py --offline --strict
	  mkdir -p $(check_cache)
	  [ -z "$$key" ] || [ "$$(digest)" != "$$key" ] || echo "$$key" > $$passed
	fi

# Modules import ansible.module_utils.trueup_node, which exists only while Ansible runs them: the folder
# .cache/mypy shows mypy the same tree under that name.
.PHONY: types
types: test-venv ## mypy --strict on module_utils, controller, analysis, library, plugins, the roles' programs, bench, the emulated cloud and the simulated Windows host
	@$(call heading,'types')
	shopt -s globstar
	mkdir -p .cache/mypy/ansible/module_utils
	ln -sfn ../../../../module_utils/trueup_node .cache/mypy/ansible/module_utils/trueup_node
	MYPYPATH=module_utils:controller:analysis mypy -p trueup_node -p trueup_controller -p trueup_analysis -p trueup
	MYPYPATH=module_utils:controller:molecule/_shared mypy -p cloud -p windows
	MYPYPATH=bench:bench/controller:bench/inventory:tests:molecule/_shared:module_utils:controller:analysis mypy --explicit-package-bases bench/*.py
	MYPYPATH=.:collection:.cache/mypy:module_utils:controller:analysis mypy --explicit-package-bases library/**/*.py plugins/**/*.py roles/**/files/*.py requirements/*.py collection/*.py

# $(call pytest,name,folder): with its closing line kept for the end of `make test`.
define pytest
	mkdir -p $(check_cache)
	# They make and remove tens of thousands of files: in memory that takes a tenth less. Not where
	# nothing may be executed, as in containers of Docker, or where there is little room.
	if [ -z "$${TMPDIR:-}" ] && memory=$$(mktemp -d /dev/shm/trueup-XXXXXX 2>/dev/null); then
	  trap 'rm -rf "$$memory"' EXIT
	  # Some tests act as another user.
	  chmod 755 "$$memory"
	  if install /bin/true "$$memory" && "$$memory/true" 2>/dev/null \
	    && [ "$$(df --output=avail -m "$$memory" | tail -n 1)" -ge 2048 ]; then export TMPDIR="$$memory"; fi
	fi
	python -m pytest $(2) $(PYTEST_ARGS) $(ARGS) 2>&1 | tee $(check_cache)/$(1).log
endef

.PHONY: unit
unit: test-venv ## Unit tests (five minutes on two cores)
	@$(call heading,'unit')
	$(call pytest,unit,tests/unit -n 2 --dist loadfile)

.PHONY: contract
contract: test-venv ## Contracts between the rooms: specs, schemas, catalog, requirements
	@$(call heading,'contract')
	$(call pytest,contract,tests/contract -n 2 --dist loadfile)

.PHONY: molecule
molecule: test-venv ## The roles on real systems: this machine (local), systemd containers, an emulated machine (vm)
	@failed=
	mkdir -p '$(warm)/controller'
	trap 'exit 130' INT
	for scenario in $(SCENARIOS); do
	  $(call heading,"molecule $$scenario")
	  lack=
	  case $$scenario in
	    local|benchmarks) tools= ;;
	    vm|shared_load) tools='qemu-system-x86_64 mmdebstrap mkfs.ext4' ;;
	    *) tools='podman runc mmdebstrap' ;;
	  esac
	  for tool in $$tools; do command -v $$tool >/dev/null || lack="$$tool is not installed"; done
	  [ -z "$$tools" ] || [ "$$(id -u)" = 0 ] || lack='its nodes need root'
	  if [ "$$scenario" = vllm ] && ! ls $(TRUEUP_CACHE)/wheels-*/torch-*+cpu-* >/dev/null 2>&1; then
	    # Not on PyPI; pip's configuration says where from.
	    torch=$$(grep -m 1 -oE '^torch==[^ ]+' roles/vllm/files/requirements-cpu.txt)
	    python -m pip install --dry-run --quiet --no-deps --ignore-installed --only-binary=:all: --python-version 3.11 \
	      --target .cache/nothing "$$torch" >/dev/null 2>&1 || lack="pip finds no $$torch, the build of torch for CPUs (docs/dev/lab.md)"
	  fi
	  if [ "$$scenario" = replicas ] && [ -z "$$lack" ]; then lack=$$(python molecule/_shared/replicas/replica.py ubuntu-22.04) || { failed+=" $$scenario"; continue; }; fi
	  if [ -n "$$lack" ]; then echo "skipped: molecule $$scenario: $$lack"; continue; fi
	  # Its nodes have fixed names: another checkout's run of the same scenario would take them away.
	  # Not emptied: where everybody may write, a link of that name would lead elsewhere.
	  exec 9>> "$(LOCKS)/trueup-molecule-$$scenario.lock"
	  flock --nonblock 9 || { echo "waiting: another run of molecule $$scenario on this machine"; flock 9; }
	  begun=$$SECONDS
	  NO_COLOR=1 PYTHONPATH='$(CURDIR)/molecule/_shared/warm' TRUEUP_WARM='$(warm)/controller' \
	    molecule test --scenario-name "$$scenario" 9>&- || failed+=" $$scenario"
	  echo "molecule $$scenario took $$((SECONDS - begun)) s"
	done
	if [ -n "$$failed" ]; then
	  mkdir -p $(check_cache)
	  printf 'molecule %s\n' $$failed >> $(failures)
	  echo "make molecule: failed:$$failed" >&2
	  exit 1
	fi

.PHONY: cloud
cloud: test-venv ## `make azure` on an emulated cloud: recipes, faults, a controller that dies (docs/dev/stand_ins.md)
	@$(call heading,'cloud')
	ansible-playbook playbooks/lab.yml -e lab_packages=test
	$(call pytest,cloud,tests/cloud)

.PHONY: replicas
replicas: test-venv ## Every replica of Azure's HPC images as every family: twice, restarted, again (docs/guides/images.md)
	@python molecule/_shared/replicas/matrix.py $(ARGS)

.PHONY: recipes
recipes: test-venv ## Recipes of Azure by the dry run, and each of vLLM on its sizes and replicas (ARGS="deepseek-r1 --units")
	@trueup azure recipes
	@PYTHONPATH=tests python tests/vllm_dry_run.py $(ARGS)

.PHONY: versions
versions: test-venv ## site.yml --check with every supported ansible-core, and the wheel in every Python, that is on this machine
	@python tests/ansible_versions.py
	python tests/installed_wheel.py
	python -m pytest tests/contract/test_ansible_versions.py $(PYTEST_ARGS) $(ARGS)

.PHONY: sanity
sanity: test-venv ## ansible-test sanity on the collection with every supported ansible-core, and antsibull-docs (ARGS="--only 2.21")
	@python tests/collection_sanity.py $(ARGS)

.PHONY: house
house: test-venv ## The measures of docs/dev/architecture.md: Jinja by place, complexity, options, names of tasks, lines
	@python tests/house.py

.PHONY: mutants
mutants: test-venv ## How many small faults the unit tests notice (ARGS="--sample 50 --only output"; an hour)
	@python tests/mutants.py $(ARGS)

.PHONY: histories
histories: test-venv ## Random histories of NVMe disks against real mdadm in user-mode Linux (ARGS="--count 1000 --seed 1000")
	@python tests/nvme_histories.py $(ARGS)

.PHONY: torture
torture: test-venv ## Long attacks: kills, faults, hostile input (docs/explain/guarantees.md; ARGS="--scale 0.1 --only kills_local")
	@PYTHONPATH=tests python -m torture $(ARGS)

.PHONY: bench
bench: test-venv ## The promises about speed, beside other programs in one run (ARGS="-k fleet"; docs/dev/measurements.md)
	@python -m pytest bench $(PYTEST_ARGS) $(ARGS)

# ---- upkeep -------------------------------------------------------------------------------------

pip_compile := CUSTOM_COMPILE_COMMAND='make lock' pip-compile --quiet --generate-hashes --no-annotate \
  --no-emit-index-url --no-emit-find-links --no-emit-trusted-host --strip-extras

# uv reads no pip configuration: UV_INDEX_URL, UV_FIND_LINKS (torch's CPU build) say where from.
uv_compile := uv pip compile --quiet --custom-compile-command 'make lock' --generate-hashes --no-annotate \
  --no-emit-index-url --no-emit-find-links --python-platform x86_64-manylinux_2_28

.PHONY: lock
lock: test-venv ## Pin the *.in again (ARGS=--upgrade, or ARGS="--upgrade-package pandas")
	@cd requirements
	for pins in controller azure test docs; do
	  $(pip_compile) --allow-unsafe $(ARGS) --output-file $$pins.txt $$pins.in
	done
	cd ../roles/vllm/files
	$(uv_compile) $(ARGS) --python-version 3.11 --no-emit-package triton --index-strategy unsafe-best-match \
	  --output-file requirements-cpu.txt requirements-cpu.in
	$(uv_compile) $(ARGS) --python-version 3.12 --output-file requirements-cuda.txt requirements-cuda.in
	$(pip_compile) --allow-unsafe $(ARGS) --output-file requirements-pip.txt requirements-pip.in
	cd ../../training/files
	for pins in requirements-cpu requirements-current requirements-deepspeed requirements-pip; do
	  $(pip_compile) --allow-unsafe $(ARGS) --output-file $$pins.txt $$pins.in
	done
	cd ../../blob_checkpoint/files
	$(pip_compile) $(ARGS) --output-file requirements.txt requirements.in
	cd ../../devito/files
	# pip has a file of its own, since it must be there before the others.
	$(pip_compile) $(ARGS) --output-file requirements.txt requirements.in
	$(uv_compile) $(ARGS) --python-version 3.10 --output-file requirements-3.10.txt requirements.in
	sed s/requirements.txt/requirements-3.10.txt/ requirements-build.in \
	  | $(uv_compile) $(ARGS) --python-version 3.10 --output-file requirements-build-3.10.txt -
	$(pip_compile) $(ARGS) --output-file requirements-mpi.txt requirements-mpi.in
	for pins in requirements-pip requirements-build; do
	  $(pip_compile) --allow-unsafe $(ARGS) --output-file $$pins.txt $$pins.in
	done

# The site's own environment: nothing else needs MkDocs.
docs_venv := .cache/docs-venv

.PHONY: docs
docs: controller-venv ## Write the documentation as a site to site/: offline, with search, each page also as Markdown
	@key=$$(sha256sum requirements/docs.txt)
	if [ "$$(cat $(docs_venv)/.trueup-docs 2>/dev/null)" != "$$key" ]; then
	  python -m venv --clear $(docs_venv)
	  $(docs_venv)/bin/python requirements/install.py requirements/docs.txt '$(TRUEUP_CACHE)/pip'
	  echo "$$key" > $(docs_venv)/.trueup-docs
	fi
	mkdir -p .cache/docs
	python tests/docs_site.py pages .cache/docs
	NO_MKDOCS_2_WARNING=1 $(docs_venv)/bin/mkdocs build --quiet --strict --config-file .cache/docs/mkdocs.yml --site-dir '$(CURDIR)/site'
	python tests/docs_site.py finish site .cache/docs
	echo 'site/index.html'

.PHONY: sbom
sbom: test-venv ## Write what trueup installs to sbom/, as CycloneDX (SECURITY.md)
	@PYTHONPATH=tests python tests/sbom.py sbom

.PHONY: options
options: test-venv ## Write roles' defaults and argument_specs, and the pages of docs/ that follow from data
	@PYTHONPATH=tests python tests/role_options.py

.PHONY: pictures
pictures: test-venv ## Write the pictures of the report in docs/pictures with Chromium, of pages that the product writes
	@# Prices are read on the day of the tests (tests/conftest.py), or their age would be a warning on the page.
	SOURCE_DATE_EPOCH=1789473600 PYTHONPATH=tests:tests/unit:tests/unit/analysis python tests/unit/analysis/report_pictures.py

.PHONY: clean
clean: ## Remove what the verbs made here, except results/
	@if [ -e '$(venv)/.trueup-place' ]; then rm -rf '$(venv)'; fi
	rm -rf .cache .mypy_cache .pytest_cache .ruff_cache .hypothesis .ansible report report-* release sbom site
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
