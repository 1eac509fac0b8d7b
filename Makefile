# pykruise: every target sets up what it needs inside this checkout (.venv) and installs nothing globally.
#   make demo   a cluster in one process, where a CloneSet is created, scaled and updated
#   make test   lint, types, import contracts and all tests; if Go is installed, also a few on a real control plane
#   make up     a cluster for your own tests, until Ctrl-C
#   make real   a real control plane with simulated nodes, until Ctrl-C; NODES=3: with real nodes (root)
#   make demo REAL=1  the demo on a real control plane with real nodes (root)
#   make test-real  conformance and scenarios on a real control plane; SELECTION=--brief: a part of them (CONTRIBUTING.md)
#   make test-nodes  scenarios on real nodes too (needs root, and packages that it lists); SELECTION=... runs fewer
#   make test-switch-over  from real OpenKruise managers to pykruise and back, on a real control plane
#   make test-others  programs of other projects (Rollouts, Helm, KEDA, kube-state-metrics and more) with pykruise; records the results
#   make simulate SEEDS=100000  random operations and faults in virtual time
#   make explore KIND=cloneset PODS=3  every order of events in small worlds
#   make mutate FILES=kinds/cloneset  mutants of files that contain decisions; lists those that no test detects
#   make fuzz OBJECTS=2000  objects of all kinds with wrong values, stored without the webhooks and sent through them
#   make simulate-mutations     breaks the product on purpose: the simulation must detect each mutation
#   make image  the images of manager, agent and dashboard as OCI archives, from the distribution's packages, without an engine
#   make release VERSION=1.2.3  all files of a release, in dist/release; RELEASE_ARGS=--twice builds them twice and compares them
#   make check-release VERSION=1.2.3  installs the files of a release, and nothing else, into empty environments
#   make push REGISTRY=registry.example.com/team  builds the images and pushes them there, without an engine
#   make bench  measurements: a CloneSet of N=1000 pods in the sandbox, decoding, cache, planning
#   make bench-beside  pykruise and OpenKruise alternately on one real control plane: speed, CPU, memory; PAIRS=5 N=500
#   make soak HOURS=8  changes of all kinds for virtual hours, and measurements of what grows; REAL=1: real hours
#   make bench-kopf N=10000  the same small operator with this runtime and with kopf, alternately; CHANGES=1000 ROUNDS=2
#   make attacks CLUSTER=real  manager, agent and dashboard under attack; SECONDS=60 for all attacks together; prints the
#               figures of docs/lab/security.md
#   make site   the documentation as a site, in build/site; make spelling finds misspelled words in it
#   make docs   regenerates the pages and parts of the chart that are generated from the code
#   make record-original KINDS=CloneSet  records results of OpenKruise's own managers for tests/recorded_original
#   make screenshots   the pictures of docs/dashboard.md, and of all other pages in dist/pictures, taken by the dashboard's tests
#   make kubectl-kruise   the plugin for kubectl as one file, dist/kubectl-kruise; put it somewhere in PATH
#   make lock   writes the hashes of supply/ again, after pyproject.toml or constraints.txt has changed
#   make bench CLUSTER=real  a CloneSet of N=500 pods and the manager's process on a real control plane
# Go builds the real control plane once; KUBERNETES=1.37 or 1.32 selects its minor version.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
PYTEST_ARGS ?=
CLUSTER ?= sandbox
N ?= $(if $(filter real,$(CLUSTER)),500,1000)
# For `make real`: NODES=3 on the command line starts three real nodes; without it, nodes are simulated.
REAL_NODES := $(NODES)
NODES ?= $(if $(filter real,$(CLUSTER)),10,50)
JSON ?=
CHART ?=
KUBERNETES ?= 1.37
WORKERS ?= 5
NODE_WORKERS ?= 2
SELECTION ?=
REAL ?=
SEEDS ?= 1000
FIRST ?= 0
OBJECTS ?= 2000
SECONDS ?= 60
PROCESSES ?=
# 1: only packages whose hash is in supply/ are installed. Continuous integration sets it.
LOCKED ?=
UV := 0.13.9

# Tests start many short processes. Without stored bytecode each of them would first compile all of pykruise.
unexport PYTHONDONTWRITEBYTECODE

REAL_CLUSTER = PYTHONPATH=tests:. $(BIN)/python -m support.real_cluster --kubernetes $(KUBERNETES)

.PHONY: bench-beside soak test-others others-in-brief bench-in-brief bench-kopf matrix-in-brief site spelling release check-release check-release-on-nodes push-release check-workflows record-original kubectl-kruise help demo fuzz up test lint unit docs bench attacks real test-real real-in-brief test-nodes test-switch-over switch-over-in-brief nodes-and-switch-over nodes-in-brief image push screenshots simulate simulate-mutations mutate explore lock clean

help:
	@sed -n 's/^#   //p' Makefile

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "pykruise needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) -V 2>&1). Try: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	@$(PYTHON) -m venv $(VENV) \
	  || { echo "could not create a virtual environment with $(PYTHON); on Debian and Ubuntu install python3-venv"; exit 1; }
	@$(PIP) install --no-compile --upgrade -c constraints.txt pip \
	  || echo "using the pip of $(PYTHON), which may take twice as long"

# Each distribution comes after those that it needs.
DISTRIBUTIONS := packages/kube packages/sandbox packages/agent packages/pykruise packages/dashboard
EDITABLE = $(patsubst packages/agent,packages/agent[node],$(DISTRIBUTIONS))
EDITABLE := $(EDITABLE:%=-e %)
REQUIREMENTS := pyproject.toml constraints.txt $(DISTRIBUTIONS:%=%/pyproject.toml)

$(VENV)/.ready: $(VENV)/bin/python $(REQUIREMENTS)
	@echo "setting up $(VENV) (once)"
	@$(if $(LOCKED),$(call locked,runtime),PIP_CONSTRAINT=constraints.txt $(PIP) install --no-compile -c constraints.txt $(EDITABLE))
	@touch $@

$(VENV)/.ready-dev: $(VENV)/bin/python $(REQUIREMENTS)
	@echo "setting up $(VENV) with the tools for tests (once)"
	@$(if $(LOCKED),$(call locked,dev),PIP_CONSTRAINT=constraints.txt $(PIP) install --no-compile -c constraints.txt --group dev $(EDITABLE))
	@touch $(VENV)/.ready $@

# First every package is installed by its hash. Then the installed build tools build the packages of this repository.
locked = $(PIP) install --no-compile --require-hashes -r supply/build.txt -r supply/$(1).txt \
  && $(PIP) install --no-compile --no-index --no-deps --no-build-isolation $(EDITABLE)

LOCK = $(VENV)/.lock/bin/uv pip compile --constraint constraints.txt --generate-hashes --universal \
  --python-version 3.11 --no-header --no-annotate --quiet \
  --no-emit-package pykruise \
  $(patsubst packages/%,--no-emit-package pykruise-%,$(filter-out packages/pykruise,$(DISTRIBUTIONS)))
PROJECTS := $(DISTRIBUTIONS:%=%/pyproject.toml)

lock:
	@$(PYTHON) -m venv $(VENV)/.lock && $(VENV)/.lock/bin/python -m pip --quiet install uv==$(UV)
	@$(LOCK) --output-file supply/manager.txt packages/pykruise/pyproject.toml
	@$(LOCK) --output-file supply/agent.txt --extra node packages/agent/pyproject.toml
	@$(LOCK) --output-file supply/dashboard.txt packages/dashboard/pyproject.toml
	@$(LOCK) --output-file supply/runtime.txt --extra node $(PROJECTS)
	@$(LOCK) --output-file supply/dev.txt --extra node $(PROJECTS) --group pyproject.toml:dev
	@printf 'check-jsonschema\ncodespell\nmkdocs-material\n' | $(LOCK) --output-file supply/site.txt -
	@printf 'hatchling\neditables\n' | $(LOCK) --output-file supply/build.txt -

demo: $(if $(REAL),$(VENV)/.ready-dev,$(VENV)/.ready)
	@$(if $(REAL),$(REAL_CLUSTER) --demo,$(BIN)/pykruise demo)

up: $(VENV)/.ready
	@$(BIN)/pykruise up

lint: $(VENV)/.ready-dev
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/mypy -p testbed -p tools
	@$(BIN)/lint-imports

# The file is for the platform and Python of this machine; `make release` builds it for all. It unpacks itself at its
# first start.
kubectl-kruise: $(VENV)/.ready-dev
	@PYTHONPATH=. $(BIN)/python -m tools.release.plugin dist/kubectl-kruise
	@echo "dist/kubectl-kruise: put it into a folder of PATH, then: kubectl kruise"

VERSION ?=
REPOSITORY ?=
BUILDER ?=
RELEASE = dist/release/$(VERSION)
needs-version = @[ -n "$(VERSION)" ] || { echo "VERSION is missing: make $@ VERSION=1.2.3"; exit 1; }

release: $(VENV)/.ready-dev
	$(needs-version)
	@PYTHONPATH=. $(BIN)/python -m tools.release $(VERSION) $(if $(REGISTRY),--registry $(REGISTRY)) \
	  $(if $(REPOSITORY),--repository $(REPOSITORY)) $(if $(BUILDER),--builder $(BUILDER)) $(RELEASE_ARGS)

# Installs the released files, and nothing from this checkout, into empty environments: a sandbox, and a real control
# plane if Go is installed.
check-release: $(VENV)/.ready-dev
	$(needs-version)
	@PYKRUISE_RELEASE=$(CURDIR)/$(RELEASE) $(BIN)/python -m pytest tests/release -n0 $(PYTEST_ARGS)

check-release-on-nodes: $(VENV)/.ready-dev
	$(needs-version)
	@PYKRUISE_RELEASE=$(CURDIR)/$(RELEASE) $(BIN)/python -m pytest --cluster=real --real-nodes -n0 \
	  tests/scenarios/test_install_on_nodes.py $(PYTEST_ARGS)

push-release:
	$(needs-version)
	@[ -n "$(REGISTRY)" ] || { echo "REGISTRY is missing: make $@ VERSION=$(VERSION) REGISTRY=registry.example.com/team"; exit 1; }
	@PYTHONPATH=. $(PYTHON) -m tools.release.pushing $(REGISTRY) $(RELEASE)/kruise-*.oci.tar
	@PYTHONPATH=. $(PYTHON) -m tools.release.pushing $(REGISTRY)/charts $(RELEASE)/pykruise-chart-*.oci.tar

SITE := $(VENV)/.site
$(SITE)/.ready: $(VENV)/bin/python supply/site.txt
	@$(PYTHON) -m venv $(SITE) && $(SITE)/bin/python -m pip --disable-pip-version-check --quiet install --require-hashes -r supply/site.txt
	@touch $@

# Warnings are errors: broken links, missing headings, and pages that the navigation does not list. A common task that
# is more than two clicks away from the start page is an error, too.
site: $(SITE)/.ready
	@PYTHONPATH=. $(SITE)/bin/python -m tools.site build/site-pages $(REPOSITORY)
	@NO_MKDOCS_2_WARNING=1 PYTHONPATH=. $(SITE)/bin/python -m mkdocs build --strict --quiet
	@PYTHONPATH=. $(SITE)/bin/python -m tools.site_clicks build/site
	@echo "build/site/index.html"

spelling: $(SITE)/.ready
	@$(SITE)/bin/codespell --config supply/codespell.cfg README.md $(wildcard *.md) docs charts/pykruise/README.md charts/pykruise/values.yaml packages/*/README.md

SCHEMA = @$(SITE)/bin/check-jsonschema --quiet --builtin-schema
check-workflows: $(VENV)/.ready-dev $(SITE)/.ready
	@PYTHONPATH=. $(BIN)/python -m tools.go actionlint -color=false .github/workflows/*.yml
	$(SCHEMA) vendor.github-workflows .github/workflows/*.yml
	$(SCHEMA) vendor.dependabot .github/dependabot.yml
	$(SCHEMA) vendor.github-issue-forms .github/ISSUE_TEMPLATE/bug.yml .github/ISSUE_TEMPLATE/feature.yml
	$(SCHEMA) vendor.github-issue-config .github/ISSUE_TEMPLATE/config.yml
	$(SCHEMA) vendor.citation-file-format CITATION.cff
	@$(SITE)/bin/check-jsonschema --quiet --check-metaschema charts/pykruise/values.schema.json

docs: $(VENV)/.ready
	@$(BIN)/python -m tools.api_reference > docs/api.md
	@$(BIN)/python -m tools.reasons_page > docs/reasons.md
	@$(BIN)/python -m tools.differences docs/migration.md
	@$(BIN)/python -m tools.verbs_page docs/kubectl.md
	@$(BIN)/python -m tools.others_table docs/compatibility.md
	@$(BIN)/python -m tools.manager_chart charts/pykruise
	@$(BIN)/python -m tools.dashboard_chart charts/pykruise
	@$(BIN)/python -m tools.chart_values charts/pykruise

# The tests are compiled once. Otherwise each worker would compile all of them, which is two thirds of the cost of
# collecting them.
$(VENV)/.compiled: $(VENV)/.ready-dev
	@$(BIN)/python -m pytest --collect-only -qq >/dev/null 2>&1 || true
	@touch $@

# The same scenarios on a cluster that serves only v1alpha1, as with the CRDs of a released OpenKruise.
OLDER := $(addprefix tests/scenarios/test_,uniteddeployment.py cloneset_rollouts.py imagepulljob.py workloadspread.py \
  containerrecreaterequest.py daemonset_rollouts.py switch_over_check.py recorded_original.py)

# A test may also wait for a process, a socket or a browser while the machine is busy: see RETRIED below.
unit: $(VENV)/.compiled
	@$(BIN)/python -m pytest -n auto $(PYTEST_ARGS) \
	  || { $(RETRIED) && $(BIN)/python -m pytest -n0 $(PYTEST_ARGS) $(LAST_FAILED); }
	@$(BIN)/python -m pytest -n auto -q --stored=v1alpha1 $(OLDER)
	@$(BIN)/python -m pytest -n0 -q -m alone tests/unit/bench

# Lint uses one processor for a short time. The tests that run in parallel also wait for sockets and processes.
test: $(VENV)/.ready-dev
	@$(MAKE) --no-print-directory -j2 lint unit
	@$(MAKE) --no-print-directory -j2 real-in-brief nodes-and-switch-over

real-in-brief: $(VENV)/.ready-dev
	@$(MAKE) --no-print-directory test-real SELECTION=--brief

nodes-and-switch-over: $(VENV)/.ready-dev
	@$(MAKE) --no-print-directory nodes-in-brief
	@$(MAKE) --no-print-directory switch-over-in-brief
	@$(MAKE) --no-print-directory bench-in-brief
	@$(MAKE) --no-print-directory matrix-in-brief
	@$(MAKE) --no-print-directory others-in-brief

# A few fast scenarios on a minor version that no other target uses: a different one each day, if it is built.
# MINOR=1.34 builds this version and uses it.
matrix-in-brief: $(VENV)/.ready-dev
	@minor=$(or $(MINOR),$$($(BIN)/python -m testbed.turns)); [ -z "$$minor" ] || { \
	  echo "Kubernetes $$minor:"; \
	  KUBERNETES=$$minor $(BIN)/python -m pytest --cluster=real -q -n $(NODE_WORKERS) $(MATRIX) $(PYTEST_ARGS); }

# The test with a PVC that is created later is left out: up to 1.34 the volume binder of the scheduler has its own cache.
# The scheduler may retry a pod before that cache contains a new volume, and then does not retry the pod for 5 minutes.
MATRIX := $(addprefix tests/scenarios/,test_scheduling.py::test_a_pod_waits_for_a_claim_that_should_be_bound_already \
  test_helm.py test_image_volumes.py::test_a_changed_image_of_a_volume_is_pulled_ahead)

# A few pods show whether the bench still runs. The figures have no meaning.
bench-in-brief: $(VENV)/.ready-dev
	@{ $(MAKE) --no-print-directory bench CLUSTER=real N=4 NODES=2 && \
	   $(MAKE) --no-print-directory bench-beside N=4 NODES=2 PAIRS=1 ROUNDS=1 REST=1; } >$(VENV)/bench.log 2>&1 \
	  || { code=$$?; cat $(VENV)/bench.log; exit $$code; }
	@$(MAKE) --no-print-directory bench-kopf N=20 CHANGES=5 ROUNDS=1 >$(VENV)/bench-kopf.log 2>&1 \
	  || { code=$$?; cat $(VENV)/bench-kopf.log; exit $$code; }

# The tests mostly wait for real nodes, so they run in parallel with the other tests. Their output is printed at the end.
nodes-in-brief: $(VENV)/.ready-dev
	@$(MAKE) --no-print-directory test-nodes SELECTION='--brief tests/scenarios/test_real_nodes.py' \
	  >$(VENV)/nodes.log 2>&1; code=$$?; cat $(VENV)/nodes.log; exit $$code

# The tests mostly wait, so there are more workers than processors, each with its own control plane. Time is real and
# the machine may be shared: a failed test is listed, and repeated alone before it counts as failed.
RETRIED = PYTHONPATH=tests $(BIN)/python -m support.retried
LAST_FAILED := --last-failed --last-failed-no-failures none
REAL_TESTS = KUBERNETES=$(KUBERNETES) $(BIN)/python -m pytest --cluster=real $(SELECTION) tests/conformance \
  tests/scenarios $(PYTEST_ARGS)

test-real: $(VENV)/.ready-dev
	@$(REAL_TESTS) -n $(WORKERS) || { $(RETRIED) && $(REAL_TESTS) $(LAST_FAILED); }

NODES_CACHE := .pytest_cache/nodes
NODE_TESTS = KUBERNETES=$(KUBERNETES) $(BIN)/python -m pytest --cluster=real --real-nodes -o cache_dir=$(NODES_CACHE) \
  $(or $(SELECTION),tests/scenarios) $(PYTEST_ARGS)

test-nodes: $(VENV)/.ready-dev
	@$(NODE_TESTS) -n $(NODE_WORKERS) || { $(RETRIED) $(NODES_CACHE) && $(NODE_TESTS) $(LAST_FAILED); }

SWITCH_OVER = KUBERNETES=$(KUBERNETES) $(BIN)/python -m pytest --cluster=real tests/switch_over $(PYTEST_ARGS)

test-switch-over: $(VENV)/.ready-dev
	@$(SWITCH_OVER) -n $(NODE_WORKERS) $(or $(SELECTION),--exhaustive)

# The switch from each release without a rollout, and during a rollout that OpenKruise began.
switch-over-in-brief: $(VENV)/.ready-dev
	@if command -v go >/dev/null; then \
	  $(SWITCH_OVER) -n $(NODE_WORKERS) -k "at_rest or 1.8-pykruise" >$(VENV)/switch-over.log 2>&1; \
	  code=$$?; cat $(VENV)/switch-over.log; exit $$code; \
	else echo "the switch-over is not tested: it needs Go to build OpenKruise's managers"; fi

OTHERS = KUBERNETES=$(KUBERNETES) $(BIN)/python -m pytest --cluster=real tests/others -n0 $(PYTEST_ARGS)

# Builds missing programs, and writes tests/others/results.json. Then run make docs.
test-others: $(VENV)/.ready-dev
	@$(OTHERS) --build-others --keep-results $(SELECTION)

# One canary, and tests that take seconds: less than a minute of CPU. Programs that are not built are skipped, and listed.
others-in-brief: $(VENV)/.ready-dev
	@$(OTHERS) -q -k "test_kustomize or test_kube_state or test_karmada or test_scaling_tools or reads_every_state or (canary_continues and CloneSet)" >$(VENV)/others.log 2>&1; \
	  code=$$?; cat $(VENV)/others.log; [ $$code = 5 ] || exit $$code

real: $(VENV)/.ready-dev
	@$(REAL_CLUSTER) $(if $(REAL_NODES),--real --nodes $(REAL_NODES))

bench: $(VENV)/.ready-dev
	@PYTHONPATH=tests:. KUBERNETES=$(KUBERNETES) $(BIN)/python -m bench --cluster $(CLUSTER) \
	  --pods $(N) --nodes $(NODES) $(if $(JSON),--json $(JSON)) $(if $(CHART),--chart $(CHART))

# Measures pykruise and OpenKruise alternately. Use the figures only if the machine is otherwise idle.
bench-beside: $(VENV)/.ready-dev
	@PYTHONPATH=tests:. KUBERNETES=$(KUBERNETES) $(BIN)/python -m bench.beside \
	  --pods $(if $(filter file,$(origin N)),500,$(N)) --nodes $(or $(REAL_NODES),100) \
	  --pairs $(or $(PAIRS),5) $(if $(ORIGINAL),--release $(ORIGINAL)) $(if $(THROTTLED),--throttled) \
	  $(if $(ROUNDS),--rounds $(ROUNDS)) $(if $(REST),--rest $(REST)) $(if $(PAGE),--page $(PAGE)) $(if $(JSON),--json $(JSON)) $(if $(CHART),--chart $(CHART))

# Leaks become visible after hours: virtual hours (a minute each), or real hours with REAL=1.
soak: $(VENV)/.ready-dev
	@PYTHONPATH=tests:. KUBERNETES=$(KUBERNETES) $(BIN)/python -m bench.soak --hours $(or $(HOURS),8) \
	  $(if $(REAL),--real) $(if $(JSON),--json $(JSON)) $(if $(CHART),--chart $(CHART))

CHANGES ?= 1000
bench-kopf: $(VENV)/.ready-dev
	@PYTHONPATH=tests:. $(BIN)/python -m bench.bench_kopf --sites $(if $(filter file,$(origin N)),10000,$(N)) \
	  --changes $(CHANGES) --rounds $(or $(ROUNDS),2)

attacks: $(VENV)/.ready-dev
	@PYTHONPATH=tests:. KUBERNETES=$(KUBERNETES) $(BIN)/python -m bench.bench_attacks --page --cluster $(CLUSTER) \
	  --seconds $(SECONDS)

image: $(VENV)/.ready-dev
	@PYTHONPATH=. $(BIN)/python -m testbed.product_images $(or $(IMAGES),build/images)

REGISTRY ?=
push: image
	@[ -n "$(REGISTRY)" ] || { echo "REGISTRY is missing: make push REGISTRY=registry.example.com/team"; exit 1; }
	@PYTHONPATH=. $(BIN)/python -m tools.release.pushing $(REGISTRY) $(or $(IMAGES),build/images)/*.tar

record-original: $(VENV)/.ready-dev
	@PYTHONPATH=tests:. KUBERNETES=$(KUBERNETES) $(BIN)/python -m recorded_original \
	  $(if $(KINDS),--kinds $(KINDS)) $(if $(RELEASE),--release $(RELEASE)) $(if $(ONLY),--only "$(ONLY)")

screenshots: $(VENV)/.ready-dev
	@PYKRUISE_PICTURES=docs/dashboard PYKRUISE_OTHER_PICTURES=dist/pictures $(BIN)/python -m pytest -q -n0 --exhaustive tests/scenarios/test_dashboard_pages.py -k "pictures or thousand"

simulate: $(VENV)/.ready-dev
	@PYTHONPATH=tests:. $(BIN)/python -m simulation --seeds $(SEEDS) --first $(FIRST) $(if $(PROCESSES),--processes $(PROCESSES))

explore: $(VENV)/.ready-dev
	@PYTHONPATH=tests:. $(BIN)/python -m exploration --pods $(or $(PODS),2) $(if $(KIND),--kind $(KIND)) $(if $(MOST),--most $(MOST)) $(if $(PROCESSES),--processes $(PROCESSES))

fuzz: $(VENV)/.ready-dev
	@PYTHONPATH=tests:. $(BIN)/python -m fuzz --objects $(OBJECTS) --first $(FIRST)

simulate-mutations: $(VENV)/.ready-dev
	@PYTHONPATH=tests:. $(BIN)/python -m simulation.mutations

mutate: $(VENV)/.ready-dev
	@PYTHONPATH=tests:. $(BIN)/python -m mutation $(FILES) $(if $(PROCESSES),--processes $(PROCESSES)) $(MUTATE_ARGS)

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
