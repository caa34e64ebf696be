# smoe: mixtures of experts in vision, on a CPU. `make help` lists the targets.
# Sources, tests, fuzz targets and man pages are found by wildcard: adding one needs no edit here.

prefix     ?= /usr/local
CC         ?= cc
CFLAGS     ?= -g
NPROC      := $(shell nproc 2>/dev/null || echo 1)
PARALLEL    = $(if $(filter -j%,$(MAKEFLAGS)),,-j$(NPROC))
SUB         = --no-print-directory $(PARALLEL)
VERSION     = $(shell sed -n 's/^.define SMOE_VERSION "\(.*\)"/\1/p' lib/include/smoe/smoe.h)

# ---- flags. CFLAGS, CPPFLAGS, LDFLAGS and LDLIBS are the user's; ours come before them, so the user's take precedence.
# pkg-config runs once, when its output is first used: this make may have to install it before.
once        = $(eval $1 := $2)$($1)
PKG        := yaml-0.1 jansson libpng libturbojpeg libwebp libarchive zlib libxxhash libmd libmicrohttpd
# libunistring has no .pc file.
PKG_CFLAGS  = $(call once,PKG_CFLAGS,$(shell pkg-config --cflags $(PKG)))
PKG_LIBS    = $(call once,PKG_LIBS,$(shell pkg-config --libs $(PKG)))
BLIS_KIND   = $(if $(filter tsan,$(FLAVOUR)),serial,openmp)
BLIS_DIR    = $(call once,BLIS_DIR,$(firstword $(dir $(wildcard /usr/include/$(MACHINE)-*/blis-$(BLIS_KIND)/blis.h))))

WARNINGS   := -Wall -Wextra -Wpedantic -Wshadow -Wstrict-prototypes -Wmissing-prototypes
ALL_CFLAGS  = -std=c11 -D_GNU_SOURCE= -Ilib -Ilib/include -Icmd -Itests/support $(WARNINGS) -O2 -fopenmp -pthread -MMD -MP \
              $(addprefix -isystem ,$(BLIS_DIR)) $(PKG_CFLAGS) $(FLAVOUR_CFLAGS) $(CPPFLAGS)
# Contracting a*b + c would make results depend on the processor; each kernel has its own flags.
STRICT     := -ffp-contract=off
# Where variables are is worth little in unrolled loops, and takes half of the time to compile them.
KERNEL     := -O3 -ffp-contract=fast -fno-math-errno -fno-trapping-math -fno-var-tracking
# The thread sanitizer can follow an OpenMP runtime only if BLIS has no threads.
BLIS_LIBS   = $(if $(filter tsan,$(FLAVOUR)),-L$(SERIAL_BLIS) -Wl$(comma)-rpath$(comma)$(SERIAL_BLIS)) -lblis
SERIAL_BLIS ?= /usr/lib/$(MACHINE)-linux-gnu/blis-serial
comma      := ,
ALL_LDLIBS  = $(PKG_LIBS) -lunistring $(BLIS_LIBS) -llapacke -lm $(LDLIBS)

# Open MPI moves data between processes, if it is installed.
MPI        ?= $(shell pkg-config --exists ompi-c 2>/dev/null && echo yes)
# SentencePiece reads its models of tokenizers, if it and a C++ compiler are installed.
SENTENCEPIECE ?= $(shell pkg-config --exists sentencepiece 2>/dev/null && command -v $(CXX) >/dev/null && echo yes)
MODULES     = $(if $(MPI),$(OBJ)/smoe_mpi.so) $(if $(SENTENCEPIECE),$(OBJ)/smoe_sentencepiece.so)

# ---- flavours: each has its own tree of objects. f64: real = double, for gradient checks. san: ASan and UBSan. debug: for a
# debugger. cov: counts which lines run, for `make coverage`. guided and tsan: built by clang, for `make fuzz-guided` and `make threads`.
# shared: position-independent objects for the shared library; the program uses those of release. modelled: wide vectors and matrix
# units in C (tests/modelled/), so that every instruction set runs on any processor with AVX2; the other objects are those of release.
FLAVOUR    ?= release
OBJ        := build/$(FLAVOUR)
FLAVOUR_CFLAGS_f64   := -DSMOE_F64
FLAVOUR_CFLAGS_san   := -O1 -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer
FLAVOUR_CFLAGS_debug := -O0 -g
FLAVOUR_CFLAGS_shared := -fPIC -fvisibility=hidden
FLAVOUR_CFLAGS_cov   := -O1 --coverage -fprofile-update=atomic
FLAVOUR_CFLAGS_guided := -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-coverage=trace-cmp -fno-sanitize-recover=undefined -fno-omit-frame-pointer
FLAVOUR_CFLAGS_tsan  := -O1 -fsanitize=thread -fno-omit-frame-pointer
FLAVOUR_CFLAGS        = $(FLAVOUR_CFLAGS_$(FLAVOUR))

# ---- output of a build: a short line per file; `make V=1` prints whole commands, `make -s` nothing.
silent      = $(findstring s,$(firstword -$(MAKEFLAGS)))
say         = $(if $(filter 1,$(V)),,@$(if $(silent),,echo '$1 $2';))
flavoured   = $(if $(filter-out release,$(FLAVOUR)), [$(FLAVOUR)])

# ---- sources. lib/math/kern_*.c is compiled once per instruction set; math/isa.c chooses at run time.
MACHINE    := $(firstword $(subst -, ,$(shell $(CC) -dumpmachine)))
ISAS       := $(if $(filter x86_64,$(MACHINE)),v4 v3) base
ISA_FLAGS_v4 := -march=x86-64-v4 -mprefer-vector-width=512
ISA_FLAGS_v3 := -march=x86-64-v3
# Only kern_matrix.c is compiled for matrix units.
UNITS      := $(if $(filter x86_64,$(MACHINE)),amx bf16)
ISA_FLAGS_bf16 := $(ISA_FLAGS_v4) -mavx512bf16
ISA_FLAGS_amx := $(ISA_FLAGS_bf16) -mamx-tile -mamx-bf16
ifeq ($(FLAVOUR),modelled)
ISA_FLAGS_v4 := $(ISA_FLAGS_v3) -Wno-psabi -include tests/modelled/avx512.h
ISA_FLAGS_bf16 := $(ISA_FLAGS_v4) -DMODELLED_BF16
ISA_FLAGS_amx := $(ISA_FLAGS_bf16) -DMODELLED_AMX
endif
KERN_SRC   := $(sort $(wildcard lib/math/kern_*.c))
# The link between processes is a separate module, which is built if Open MPI is installed.
MPI_SRC    := lib/comm/link_mpi.c
LIB_SRC    := $(filter-out $(KERN_SRC) $(MPI_SRC),$(sort $(wildcard lib/*/*.c)))
CMD_SRC    := $(sort $(wildcard cmd/*.c))
TEST_SRC   := $(sort $(wildcard tests/*/test_*.c))
HELPER_SRC := $(sort $(wildcard tests/support/*.c))
TOOL_SRC   := $(sort $(wildcard tests/tools/*.c))
FUZZ_SRC   := $(sort $(wildcard tests/fuzz/fuzz_*.c))
MAN        := $(sort $(wildcard man/*.[1-9]))

ISA_OBJ     = $(foreach isa,$1,$(KERN_SRC:%.c=%.$(isa).o))
MODELLED   := lib/math/isa.o $(call ISA_OBJ,v4) $(UNITS:%=lib/math/kern_matrix.%.o)
# The place of objects in the tree of this flavour.
placed      = $(foreach o,$1,$(if $(filter modelled,$(FLAVOUR)),$(if $(filter $(MODELLED),$o),$(OBJ),build/release),$(OBJ))/$o)
LIB_OBJ    := $(call placed,$(LIB_SRC:.c=.o) $(call ISA_OBJ,$(ISAS)) $(UNITS:%=lib/math/kern_matrix.%.o))
CMD_OBJ    := $(call placed,$(CMD_SRC:.c=.o))
HELPER_OBJ := $(call placed,$(HELPER_SRC:.c=.o))
TESTS      := $(TEST_SRC:%.c=$(OBJ)/%)
FUZZERS    := $(FUZZ_SRC:%.c=$(OBJ)/%)
TOOLS      := $(TOOL_SRC:%.c=$(OBJ)/%)
GRADIENTS  := $(filter $(OBJ)/tests/vit/test_grad% $(OBJ)/tests/vit/test_text,$(TESTS))
TEST_OBJ   := $(call placed,$(TEST_SRC:.c=.o))
TOOL_OBJ   := $(call placed,$(TOOL_SRC:.c=.o))
ALL_OBJ    := $(LIB_OBJ) $(CMD_OBJ) $(HELPER_OBJ) $(TEST_OBJ) $(FUZZERS:=.o) $(TOOL_OBJ) $(OBJ)/tests/fuzz/driver.o \
              $(OBJ)/experiments/characters/characters.o

# ---- building
all: missing build/smoe

# Made every time, since another flavour may have been built in the meantime.
build/smoe: $(OBJ)/smoe $(MODULES) always
	@[ "$$(readlink $@)" = $(FLAVOUR)/smoe ] || ln -sf $(FLAVOUR)/smoe $@

EVERY_FLAG = $(CC) $(subst ','\'',$(ALL_CFLAGS) $(STRICT) $(KERNEL) $(foreach isa,$(ISAS) $(UNITS),$(ISA_FLAGS_$(isa))) $(CFLAGS))
# Rewritten only if compiler or flags change; then everything is rebuilt.
$(OBJ)/flags: always
	@mkdir -p $(@D)
	@echo '$(EVERY_FLAG)' | cmp -s - $@ || echo '$(EVERY_FLAG)' > $@

build/modelled/lib/math/isa.o: FILE_CFLAGS = -DSMOE_MODELLED
$(OBJ)/lib/store/env.o: FILE_CFLAGS = -DSMOE_CFLAGS='"$(subst ",\",$(strip -O2 $(STRICT) $(FLAVOUR_CFLAGS) $(CPPFLAGS) $(CFLAGS)))"'

# The HTML of the report is embedded in the library, unchanged.
$(OBJ)/lib/draw/report_part.o: $(wildcard lib/draw/*.html lib/draw/*.css lib/draw/*.js)

$(OBJ)/%.o: %.c $(OBJ)/flags
	@mkdir -p $(@D)
	$(call say,CC,$<$(flavoured))$(CC) $(ALL_CFLAGS) $(STRICT) $(FILE_CFLAGS) $(CFLAGS) -c -o $@ $<

# With sanitizers, clang takes many minutes for kernels: for threads only those of base have them, for SMOE_ISA=base; parsers use none.
bare        = $(if $(or $(filter guided,$(FLAVOUR)),$(and $(filter-out base,$2),$(filter tsan,$(FLAVOUR)))),$(filter-out $(FLAVOUR_CFLAGS),$1),$1)

define isa_rule
$(OBJ)/lib/math/%.$1.o: lib/math/%.c $(OBJ)/flags
	@mkdir -p $$(@D)
	$$(call say,CC,$$< $1$$(flavoured))$$(CC) $$(call bare,$$(ALL_CFLAGS),$1) $$(KERNEL) -DSMOE_ISA=$1 $$(ISA_FLAGS_$1) $$(call bare,$$(FLAVOUR_CFLAGS),$1) $$(CFLAGS) -c -o $$@ $$<
endef
$(foreach isa,$(ISAS) $(UNITS),$(eval $(call isa_rule,$(isa))))

LINK        = $(call say,LINK,$@)$(CC) $(ALL_CFLAGS) $(CFLAGS) -Wl,--as-needed $(LDFLAGS) -o $@ $(filter %.o %.a,$^)

$(OBJ)/libsmoe.a: $(LIB_OBJ)
$(OBJ)/libcmd.a: $(filter-out %/main.o,$(CMD_OBJ))
$(OBJ)/libtest.a: $(HELPER_OBJ)
$(OBJ)/lib%.a:
	@rm -f $@
	$(call say,AR,$@)$(AR) rcs $@ $^

# Programs load the library by the number in SONAME. It must change if a change of the library breaks programs built before.
SONAME      = libsmoe.so.$(firstword $(subst ., ,$(VERSION)))
SHARED      = libsmoe.so.$(VERSION)
shared:
	@$(MAKE) --no-print-directory FLAVOUR=shared build/shared/$(SHARED)

build/shared/$(SHARED): $(LIB_OBJ) lib/smoe.map
	$(LINK) -shared -Wl,-soname,$(SONAME) -Wl,--version-script=lib/smoe.map -Wl,-z,defs $(ALL_LDLIBS)

# A single process never loads it. `make MPI=` builds without it.
$(OBJ)/smoe_mpi.so: $(MPI_SRC) lib/comm/comm.h $(OBJ)/flags
	$(call say,LINK,$@)$(CC) $(ALL_CFLAGS) $(STRICT) $(CFLAGS) $(shell pkg-config --cflags ompi-c) -fPIC -fvisibility=hidden \
	    -shared $(LDFLAGS) -o $@ $< $(shell pkg-config --libs ompi-c)

# Loaded only for tokenizers of this kind. `make SENTENCEPIECE=` builds without it.
$(OBJ)/smoe_sentencepiece.so: lib/text/sentencepiece.cc lib/text/sentencepiece.h $(OBJ)/flags
	$(call say,LINK,$@)$(CXX) -std=c++17 -Ilib $(filter-out -Wstrict-prototypes -Wmissing-prototypes,$(WARNINGS)) -O2 $(CPPFLAGS) $(CXXFLAGS) \
	    $(shell pkg-config --cflags sentencepiece) -fPIC -fvisibility=default -shared $(LDFLAGS) -o $@ $< $(shell pkg-config --libs sentencepiece)

$(OBJ)/smoe: $(call placed,cmd/main.o) $(OBJ)/libcmd.a $(OBJ)/libsmoe.a
	$(LINK) $(ALL_LDLIBS)

$(TESTS): $(OBJ)/%: $(call placed,%.o) $(OBJ)/libtest.a $(OBJ)/libcmd.a $(OBJ)/libsmoe.a
	@mkdir -p $(@D)
	$(LINK) -lcmocka $(ALL_LDLIBS)

# libFuzzer has its own main.
$(FUZZERS): %: %.o $(if $(filter guided,$(FLAVOUR)),,$(OBJ)/tests/fuzz/driver.o) $(OBJ)/libsmoe.a
	$(LINK) $(if $(filter guided,$(FLAVOUR)),-fsanitize=fuzzer) $(ALL_LDLIBS)

$(TOOLS): $(OBJ)/%: $(call placed,%.o) $(OBJ)/libtest.a $(OBJ)/libsmoe.a
	@mkdir -p $(@D)
	$(LINK) -lcmocka $(ALL_LDLIBS)

ifeq ($(FLAVOUR),modelled)
$(filter build/release/%,$(ALL_OBJ)): release ;
release:
	@$(MAKE) $(SUB) FLAVOUR=release all tests
endif

tests: $(TESTS) $(TOOLS)
gradients: $(GRADIENTS)
fuzzers: $(FUZZERS)

# ---- Debian packages: packages.txt lists them, one rule installs them
names_in    = $(shell sed -n 's/^\([a-z][^ ]*\).*/\1/p' $1)
PACKAGES   := $(call names_in,packages.txt)
find_missing = command -v dpkg-query >/dev/null || exit 0; \
	missing=$$(for p in $(PACKAGES); do \
	    dpkg-query -W -f='$${Status}\n' $$p 2>/dev/null | grep -q '^install ok installed' || printf ' %s' $$p; \
	done); [ -n "$$missing" ] || exit 0

missing:
	@$(find_missing); echo "not installed:$$missing (make deps installs them)" >&2

deps:
	@$(find_missing); \
	if [ "$$(id -u)" = 0 ]; then as=; \
	elif sudo -n true 2>/dev/null; then as=sudo; \
	else echo "These Debian packages are missing:$$missing"; echo "Install them with:"; \
	    echo "    sudo apt-get install$$missing"; echo "and run make again."; exit 1; fi >&2; \
	echo "installing$$missing" >&2; \
	$$as env DEBIAN_FRONTEND=noninteractive apt-get update -q && \
	$$as env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends $$missing

# ---- the two commands of the README. What needs packages runs in a second make, after deps.
QUICK      := runs/quickstart
quickstart: deps
	@$(MAKE) $(SUB) all
	build/smoe train experiments/quickstart.yaml -o $(QUICK) --force
	build/smoe eval $(QUICK)
	@echo
	@echo "The run is in $(QUICK); 'make quickstart' replaces it. What to type next:"
	@printf '    %-52s %s\n' \
	    'build/smoe inspect $(QUICK)' 'how the tokens were routed' \
	    'build/smoe cost experiments/quickstart.yaml' 'what the model costs' \
	    'build/smoe train experiments/quickstart.yaml seed=1' 'another run, in runs/' \
	    'build/smoe help' 'everything else'

# ---- testing. tests/run.sh runs programs and scripts in parallel and prints totals.
SCRIPTS    := tests/cli/cases.txt $(sort $(wildcard tests/cli/case_*.sh)) tests/lint.sh tests/portable.sh
PROGRAMS_release = $(TEST_SRC:%.c=build/release/%) $(GRADIENTS:$(OBJ)/%=build/f64/%) $(TEST_SRC:%.c=build/san/%) $(FUZZ_SRC:%.c=build/san/%) \
                   $(MODELLED_TESTS:%.c=build/modelled/%)
# Those that run again for every instruction set.
MODELLED_TESTS  := $(if $(UNITS),$(shell grep -l isas_run_again tests/math/test_*.c))
PROGRAMS_f64     = $(GRADIENTS)
PROGRAMS         = $(or $(PROGRAMS_$(FLAVOUR)),$(TESTS))
# Everything that `make check` runs. T=test_plan runs the test of that name in every flavour; FLAVOUR=debug runs the tests of one flavour.
CHECKED     = $(call named,$(PROGRAMS) $(if $(filter release,$(FLAVOUR)),$(SCRIPTS)))
named       = $(if $(T),$(foreach p,$1,$(if $(filter $T,$(basename $(notdir $p))),$p)),$1)

check: deps
	$(if $(strip $(CHECKED)),,$(error no test is called '$T'))
	@$(MAKE) $(SUB) FLAVOUR=release all $(if $T,,shared tests)
	@for flavour in $(sort $(foreach p,$(filter build/%,$(CHECKED)),$(word 2,$(subst /, ,$p)))); do \
	    $(MAKE) $(SUB) FLAVOUR=$$flavour $$(echo $(CHECKED) | tr ' ' '\n' | grep "^build/$$flavour/") || exit 1; done
	$(if $(and $(UNITS),$(filter %case_isas.sh,$(CHECKED))),@$(MAKE) $(SUB) FLAVOUR=modelled build/modelled/smoe)
	@$(LINT) $(PORTABLE) tests/run.sh $(CHECKED)

# To run after every edit: the tests of this flavour and a few cases of the command line.
QUICK_CASES := config convert eval specs threads twice
check-quick:
	@$(MAKE) $(SUB) all tests
	@echo 'Left out: gradients in double precision, sanitizers, fuzzing, most cases of the command line, lint, portability.'
	@SMOE_UNDER_TEST=$(CURDIR)/$(OBJ)/smoe tests/run.sh $(TESTS) $(QUICK_CASES:%=tests/cli/case_%.sh)

# Which lines the tests run, a table per room; build/cov/uncovered.txt lists the others.
coverage: deps
	@$(MAKE) $(SUB) FLAVOUR=release all
	@$(MAKE) $(SUB) FLAVOUR=cov build/cov/smoe tests
	@find build/cov -name '*.gcda' -delete
	@SMOE_UNDER_TEST=$(CURDIR)/build/cov/smoe tests/run.sh \
	    $(TEST_SRC:%.c=build/cov/%) $(filter tests/cli/%,$(SCRIPTS)); status=$$?; tests/coverage.sh && exit $$status

# Processes are killed at random moments. Too slow for `make check`.
check-processes: all
	@KILLS=$(or $(KILLS),100) tests/processes.sh

# A real Slurm with two nodes, which are namespaces of this machine; as root.
check-slurm: PACKAGES += slurm-wlm iproute2
check-slurm: deps
	@$(MAKE) $(SUB) all
	@tests/cluster/slurm.sh

# Step times over links of known rates, compared with smoe cost; as root, on an idle machine.
check-links: PACKAGES += iproute2
check-links: deps
	@$(MAKE) $(SUB) all
	@tests/cluster/links.sh

# Two machines on a file system with stale caches and without locks; as root.
check-stale: PACKAGES += libfuse3-dev fuse3 iproute2
check-stale: deps
	@$(MAKE) $(SUB) all
	@tests/cluster/stale.sh

# Compares the bits of trained models with the table in the tree. To run after any change that should not change them.
golden: all tests
	@mkdir -p runs; tests/golden/golden.sh $(OBJ)/smoe $(OBJ)/tests/tools/tensors > runs/golden.txt; tests/golden/compare.sh runs/golden.txt

LINT        = CC='$(CC)' HEADER_FLAGS='$(filter-out -MMD -MP,$(ALL_CFLAGS)) $(if $(MPI),$(shell pkg-config --cflags ompi-c))'
lint:
	@$(LINT) tests/lint.sh

PORTABLE    = STRICT='$(STRICT)' KERNEL='$(KERNEL)'
portable: all
	@$(LINT) $(PORTABLE) tests/portable.sh

# Every fuzz target in turn, for FUZZ_SECONDS each; a failure is printed with the command that repeats it.
FUZZ_SECONDS ?= 300
fuzz: deps
	@$(MAKE) $(SUB) FLAVOUR=san fuzzers
	@for f in $(FUZZ_SRC:%.c=build/san/%); do $$f --seconds $(FUZZ_SECONDS) || exit 1; done

# The same parsers with coverage feedback, by clang's libFuzzer. tests/fuzz/totals.txt counts all executions; T=fuzz_spec runs one target.
fuzz-guided: PACKAGES += clang
fuzz-guided: deps
	@$(MAKE) $(SUB) FLAVOUR=guided CC='$(CLANG)' fuzzers
	@tests/fuzz/guided.sh $(FUZZ_SECONDS) $(call named,$(FUZZ_SRC:%.c=build/guided/%))

# Data races: clang's thread sanitizer, an OpenMP runtime that reports barriers to it, and a BLIS without threads.
CLANG      ?= clang
ARCHER     ?= $(firstword $(wildcard /usr/lib/llvm-*/lib/libarcher.so))
THREAD_TESTS = build/tsan/tests/comm/test_comm build/tsan/tests/train/test_step_processes
threads: PACKAGES += clang libomp-dev libblis-serial-dev
threads: deps
	@$(MAKE) $(SUB) FLAVOUR=tsan CC='$(CLANG)' MPI= build/tsan/smoe $(THREAD_TESTS)
	@tests/threads.sh build/tsan/smoe $(ARCHER) $(THREAD_TESTS)

# In each command, every N-th allocation, change of a file and reading of a file fails; the process is killed before every N-th
# change, and a power cut after it is simulated. FAULT_STRIDE=7 tries one of every seven.
FAULT_STRIDE ?= 1
faults: PACKAGES += strace python3
# In a file system in memory, if there is one: otherwise most of the time is spent on syncing files.
faults: export TMPDIR := $(firstword $(wildcard /dev/shm) /tmp)
faults: deps
	@$(MAKE) $(SUB) all
	@mkdir -p build/faults
	@$(CC) -std=c11 -D_GNU_SOURCE= -O2 -fPIC -shared -o build/faults/faults.so tests/faults/faults.c -ldl
	@tests/faults/run.sh build/smoe build/faults/faults.so $(FAULT_STRIDE)
	@tests/faults/replay.py build/smoe build/faults/faults.so $(FAULT_STRIDE)
	@tests/faults/bytes.sh build/smoe
	@tests/faults/random.sh build/smoe $(or $(KILLS),100)

# Files that are changed at random, HOSTILE times for each command that reads them, under the sanitizers.
hostile: PACKAGES += python3
hostile: deps
	@$(MAKE) $(SUB) FLAVOUR=san build/san/smoe
	@tests/faults/hostile.py build/san/smoe $(or $(HOSTILE),4)

# One after the other, since each needs the whole machine; a new table is started.
BENCHED    := runs/bench.md
bench: deps
	@$(MAKE) $(SUB) all
	@rm -f $(BENCHED)
	@for s in $(sort $(wildcard experiments/bench/*.yaml)); do \
	    echo "== $$s"; build/smoe bench $$s --append $(BENCHED) || exit 1; done
	@cat $(BENCHED)

# ---- data of experiments/characters.yaml. CHARACTERS: options, `make characters CHARACTERS=--help` lists them.
DRAWER     := build/release/experiments/characters/characters
characters: PACKAGES += $(call names_in,experiments/characters/packages.txt)
characters: deps
	@$(MAKE) --no-print-directory $(PARALLEL) $(DRAWER)
	@mkdir -p runs
	$(DRAWER) $(CHARACTERS) runs/characters.tar

check-characters: PACKAGES += $(call names_in,experiments/characters/packages.txt)
check-characters: deps
	@$(MAKE) --no-print-directory $(PARALLEL) $(DRAWER)
	@experiments/characters/check.sh $(DRAWER)

$(DRAWER).o: FILE_CFLAGS = $(shell pkg-config --cflags freetype2)
$(DRAWER): LDLIBS += $(shell pkg-config --libs freetype2)
$(DRAWER): %: %.o $(OBJ)/libsmoe.a
	$(LINK) $(ALL_LDLIBS)

# ---- installing
bindir = $(DESTDIR)$(prefix)/bin
libdir = $(prefix)/lib
incdir = $(DESTDIR)$(prefix)/include/smoe
mandir = $(DESTDIR)$(prefix)/share/man
comdir = $(DESTDIR)$(prefix)/share
# The files that the README refers to, for users without a clone.
SHARE   := README.md NEWS.md LICENSE examples experiments
HEADERS := $(sort $(wildcard lib/include/smoe/*.h))

BLANK_FREE = $(if $(word 2,$(DESTDIR)$(prefix)),$(error DESTDIR and prefix cannot have blanks))
install: all shared
	$(BLANK_FREE)
	install -D -m 755 build/release/smoe $(bindir)/smoe
	install -D -m 644 build/release/libsmoe.a $(DESTDIR)$(libdir)/libsmoe.a
	$(foreach m,$(notdir $(MODULES)),install -D -m 644 build/release/$m $(DESTDIR)$(libdir)/smoe/$m;)
	install -m 644 build/shared/$(SHARED) $(DESTDIR)$(libdir)/$(SHARED)
	ln -sf $(SHARED) $(DESTDIR)$(libdir)/$(SONAME)
	ln -sf $(SONAME) $(DESTDIR)$(libdir)/libsmoe.so
	install -D -m 644 -t $(incdir) $(HEADERS)
	mkdir -p $(DESTDIR)$(libdir)/pkgconfig
	sed -e 's,@prefix@,$(prefix),' -e 's,@libdir@,$(libdir),' -e 's,@version@,$(VERSION),' smoe.pc.in > $(DESTDIR)$(libdir)/pkgconfig/smoe.pc
	find $(SHARE) -type f -exec install -D -m 644 {} $(comdir)/smoe/{} \;
	for m in $(MAN:man/%=%); do install -D -m 644 man/$$m $(mandir)/man$${m##*.}/$$m || exit 1; done
	mkdir -p $(comdir)/bash-completion/completions $(comdir)/zsh/site-functions $(comdir)/fish/vendor_completions.d
	build/release/smoe --completion bash > $(comdir)/bash-completion/completions/smoe
	build/release/smoe --completion zsh > $(comdir)/zsh/site-functions/_smoe
	build/release/smoe --completion fish > $(comdir)/fish/vendor_completions.d/smoe.fish

uninstall:
	$(BLANK_FREE)
	rm -f $(bindir)/smoe $(DESTDIR)$(libdir)/pkgconfig/smoe.pc
	rm -f $(addprefix $(DESTDIR)$(libdir)/,libsmoe.a libsmoe.so $(SONAME) $(SHARED))
	rm -f $(foreach m,$(MAN:man/%=%),$(mandir)/man$(lastword $(subst ., ,$m))/$m)
	rm -f $(comdir)/bash-completion/completions/smoe $(comdir)/zsh/site-functions/_smoe \
	    $(comdir)/fish/vendor_completions.d/smoe.fish
	rm -rf $(incdir) $(comdir)/smoe $(DESTDIR)$(libdir)/smoe

clean:
	rm -rf build

help:
	@echo 'make              build build/smoe'
	@echo 'make quickstart   install what is missing, build, train and evaluate a small model (minutes)'
	@echo 'make check        install what is missing, build all flavours, run every test; T=test_plan runs one'
	@echo 'make check-quick  the tests of one flavour and a few commands: under a minute, to run after every edit'
	@echo 'make check-processes  kill processes of runs under mpirun at random moments, KILLS=100 times: half an hour'
	@echo 'make check-slurm  training and sweeps under Slurm, started on this machine (as root): four minutes'
	@echo 'make check-links  step times over links of known rates against smoe cost (as root, idle machine): two minutes'
	@echo 'make check-stale  sweeps and training on a file system with stale caches and without locks (as root): three minutes'
	@echo 'make coverage     which lines the tests run, by room'
	@echo 'make bench        time the specs of experiments/bench, with a table in $(BENCHED)'
	@echo 'make evidence     run the planned experiments of experiments/PLAN.md: hours; goes on where it was stopped'
	@echo 'make evidence-more  run four long exploratory ones that evidence leaves out'
	@echo 'make repeat       train published cells again, CELLS=3 drawn at random by DRAW=1, and compare every digit'
	@echo 'make characters   draw the images of experiments/characters.yaml, and install the fonts for it'
	@echo 'make fuzz         fuzz every parser for FUZZ_SECONDS ($(FUZZ_SECONDS)) each'
	@echo 'make fuzz-guided  the same with coverage feedback (clang); what was tried adds up in tests/fuzz/totals.txt'
	@echo 'make threads      data races in train, eval and inspect: thread sanitizer (clang)'
	@echo 'make faults       failing memory, failing disks, kills and power cuts, at every N-th call (FAULT_STRIDE) and at random (KILLS)'
	@echo 'make hostile      files changed at random, HOSTILE times for each command that reads them, under the sanitizers'
	@echo 'make lint         style, includes, man pages, clang-tidy'
	@echo 'make golden       train small models of every kind and compare their bits with tests/golden/golden.txt; with FLAVOUR=modelled'
	@echo '                  for every instruction set, whatever the processor (ten minutes)'
	@echo 'make portable     no AVX outside the kernels for it; aarch64, where its compiler and qemu are installed'
	@echo 'make deps         install the Debian packages of packages.txt that are missing'
	@echo 'make install      program, libraries, man pages, completions, examples, experiments (prefix=$(prefix), DESTDIR)'
	@echo 'make uninstall    remove them'
	@echo 'make clean        remove build/'
	@echo 'Yours to set: CC, CFLAGS, CPPFLAGS, LDFLAGS, LDLIBS, prefix, DESTDIR; V=1 prints whole commands;'
	@echo 'FLAVOUR=release, debug, f64 (double precision), san (sanitizers), cov (coverage) or modelled (AVX-512 and matrix units in C).'

# ---- the experiments of experiments/PLAN.md: first those with primary contrasts, then exploratory sweeps. They take hours, and
# continue when started again. The bits are the same on any processor with AVX2. The cells of NAME:START start from those of the
# sweep START.
EVIDENCE := facts-ablation bpr-inference facts-slots facts-experts bpr-training routers-since why-scale why-phi why-frozen \
            pareto placement topk-order k-training k-inference router-noise group-transfer reduced-compute experts-choice-capacity \
            k-capacity-layers random-routers collapse-rate collapse-width upcycling-dense upcycling:upcycling-dense routers-since-time \
            transfer-pretrain transfer-resolution:transfer-pretrain transfer-grid:transfer-pretrain soups:transfer-pretrain \
            transfer-sparse transfer-capacity:transfer-sparse transfer-k:transfer-sparse transfer-randaugment \
            contrastive-pretrain contrastive:contrastive-pretrain cooldown experts-matched-time pareto-vmoe superclasses
# Exploratory, and long: with them evidence would take more than twelve hours on two cores.
EVIDENCE_MORE := transfer-less-data dropping pareto-configurations precision-quickstart
evidence: SWEEPS = $(EVIDENCE)
evidence-more: SWEEPS = $(EVIDENCE_MORE)
evidence evidence-more: all
	@for s in $(SWEEPS); do \
	    name=$${s%:*}; echo "== $$name"; dir=runs/evidence/$$name; \
	    if [ -f $$dir/cells.jsonl ]; then set -- --resume $$dir; else set -- experiments/$$name.yaml -o $$dir; \
	        case $$s in *:*) set -- "$$@" --init runs/evidence/$${s#*:};; esac; [ $$name != upcycling ] || set -- "$$@" --upcycle; fi; \
	    SMOE_ISA=v3 build/smoe sweep "$$@" -J $(NPROC) || exit 1; done

# Published cells that are drawn at random are trained again and compared, digit for digit. Sweeps whose cells start from those of
# another sweep are left out.
CELLS := 3
DRAW := 1
repeat: all
	@experiments/repeat.sh $(CELLS) $(DRAW) $(foreach s,$(filter-out %:%,$(EVIDENCE) $(EVIDENCE_MORE)),$(if $(wildcard experiments/results/$(s)/results.csv),$(s)))

.PHONY: release evidence evidence-more repeat characters check-characters all shared tests gradients golden fuzzers missing deps quickstart check check-quick check-processes check-slurm check-links check-stale coverage lint portable fuzz fuzz-guided threads faults hostile bench install uninstall clean help always
.SECONDARY: $(ALL_OBJ)
-include $(ALL_OBJ:.o=.d)
