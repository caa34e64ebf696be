# smoe: mixtures of experts in vision, on a CPU. `make help` lists the targets, from the lines that begin with `##`.
# Building and installing are here, tests in tests/Makefile, experiments in experiments/Makefile.
# Sources, tests, fuzz targets and man pages are found by wildcard: adding one needs no edit here.

prefix     ?= $(or $(PREFIX),/usr/local)
CC         ?= cc
CFLAGS     ?= -g
NPROC      := $(shell nproc 2>/dev/null || echo 1)
PARALLEL    = $(if $(filter -j%,$(MAKEFLAGS)),,-j$(NPROC))
SUB         = --no-print-directory $(PARALLEL)
VERSION     = $(shell sed -n 's/^.define SMOE_VERSION "\(.*\)"/\1/p' lib/include/smoe/smoe.h)

# ---- flags. CFLAGS, CPPFLAGS, LDFLAGS and LDLIBS are the user's; ours come before them, so the user's take precedence.
# pkg-config runs once, when its output is first used: this make may have to install it before.
once        = $(eval $1 := $2)$($1)
PKG         = yaml-0.1 jansson libpng libturbojpeg libwebp libarchive zlib libxxhash libmd $(if $(HTTP),libmicrohttpd)
# libunistring has no .pc file.
PKG_CFLAGS  = $(call once,PKG_CFLAGS,$(shell pkg-config --cflags $(PKG)))
PKG_LIBS    = $(call once,PKG_LIBS,$(shell pkg-config --libs $(PKG)))
BLIS_KIND   = $(if $(filter tsan,$(FLAVOUR)),serial,openmp)
BLIS_DIR    = $(call once,BLIS_DIR,$(firstword $(dir $(wildcard /usr/include/$(MACHINE)-*/blis-$(BLIS_KIND)/blis.h))))

WARNINGS   := -Wall -Wextra -Wno-missing-field-initializers -Wpedantic -Wshadow -Wstrict-prototypes -Wmissing-prototypes
# Position-independent code: programs at random addresses, and one set of objects for the static and the shared library.
PIC        := -fPIC -fno-semantic-interposition
# What distributions expect of a program that reads files of strangers; case_hardened looks for it. The sanitizers do more.
HARDENED    = $(filter release f64 modelled,$(FLAVOUR))
HARDEN      = $(if $(HARDENED),-fstack-protector-strong $(if $(findstring _FORTIFY_SOURCE,$(CPPFLAGS) $(CFLAGS)),,-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2))
HARDEN_LINK := -Wl,-z,relro,-z,now
ALL_CFLAGS  = -std=c11 -D_GNU_SOURCE= -Ilib -Ilib/include -Icmd -Itests/support $(WARNINGS) -O2 -fopenmp -pthread -MMD -MP $(PIC) $(HARDEN) \
              $(addprefix -isystem ,$(BLIS_DIR)) $(PKG_CFLAGS) $(FLAVOUR_CFLAGS) $(CPPFLAGS)
# Contracting a*b + c would make results depend on the processor; each kernel has its own flags.
STRICT     := -ffp-contract=off
# Where variables are is worth little in unrolled loops, and takes half of the time to compile them. Kernels read no input, and
# their small arrays are registers, which a stack protector would take to the stack.
KERNEL     := -O3 -ffp-contract=fast -fno-math-errno -fno-trapping-math -fno-var-tracking -fno-stack-protector
# The thread sanitizer can follow an OpenMP runtime only if BLIS has no threads.
BLIS_LIBS   = $(if $(filter tsan,$(FLAVOUR)),-L$(SERIAL_BLIS) -Wl$(comma)-rpath$(comma)$(SERIAL_BLIS)) -lblis
SERIAL_BLIS ?= /usr/lib/$(MACHINE)-linux-gnu/blis-serial
comma      := ,
ALL_LDLIBS  = $(PKG_LIBS) -lunistring $(BLIS_LIBS) -llapacke -lm $(LDLIBS)

# Optional: what is not installed, or switched off as by `make MPI=`, is left out. `smoe doctor` tells what a program has.
there       = $(shell pkg-config --exists $1 2>/dev/null && echo yes)
# smoe serve.
HTTP       ?= $(call there,libmicrohttpd)
# Moves data between processes: Open MPI.
MPI        ?= $(call there,ompi-c)
# Reads its own models of tokenizers; its library is in C++.
SENTENCEPIECE ?= $(if $(shell command -v $(CXX)),$(call there,sentencepiece))
MODULES     = $(if $(MPI),$(OBJ)/smoe_mpi.so) $(if $(SENTENCEPIECE),$(OBJ)/smoe_sentencepiece.so)

# ---- flavours: each has its own tree of objects. f64: real = double, for gradient checks. san: ASan and UBSan. debug: for a
# debugger. cov: counts which lines run, for `make coverage`. guided and tsan: built by clang, for `make fuzz-guided` and `make threads`.
# modelled: wide vectors and matrix units in C (tests/modelled/), so that every instruction set runs on any processor with AVX2; the
# other objects are those of release.
FLAVOUR    ?= release
OBJ        := build/$(FLAVOUR)
FLAVOUR_CFLAGS_f64   := -DSMOE_F64
FLAVOUR_CFLAGS_san   := -O1 -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer
FLAVOUR_CFLAGS_debug := -O0 -g
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
CMD_SRC    := $(filter-out $(if $(HTTP),cmd/serve_none.c,cmd/serve.c),$(sort $(wildcard cmd/*.c)))
HEADERS    := $(sort $(wildcard lib/include/smoe/*.h))
MAN        := $(sort $(wildcard man/*.[1-9]))

ISA_OBJ     = $(foreach isa,$1,$(KERN_SRC:%.c=%.$(isa).o))
MODELLED   := lib/math/isa.o $(call ISA_OBJ,v4) $(UNITS:%=lib/math/kern_matrix.%.o)
# The place of objects in the tree of this flavour.
placed      = $(foreach o,$1,$(if $(filter modelled,$(FLAVOUR)),$(if $(filter $(MODELLED),$o),$(OBJ),build/release),$(OBJ))/$o)
LIB_OBJ    := $(call placed,$(LIB_SRC:.c=.o) $(call ISA_OBJ,$(ISAS)) $(UNITS:%=lib/math/kern_matrix.%.o))
CMD_OBJ    := $(call placed,$(CMD_SRC:.c=.o))
ALL_OBJ    := $(LIB_OBJ) $(CMD_OBJ)

# ---- building
## make                      build build/smoe
all: missing build/smoe $(if $(filter release,$(FLAVOUR)),shared)

# Made every time, since another flavour may have been built in the meantime.
build/smoe: $(OBJ)/smoe $(MODULES) always
	@[ "$$(readlink $@)" = $(FLAVOUR)/smoe ] || ln -sf $(FLAVOUR)/smoe $@

EVERY_FLAG = $(CC) $(subst ','\'',$(ALL_CFLAGS) $(STRICT) $(KERNEL) $(foreach isa,$(ISAS) $(UNITS),$(ISA_FLAGS_$(isa))) $(CFLAGS)) $(HTTP)
# Rewritten only if compiler or flags change; then everything is rebuilt.
$(OBJ)/flags: always
	@mkdir -p $(@D)
	@echo '$(EVERY_FLAG)' | cmp -s - $@ || echo '$(EVERY_FLAG)' > $@

build/modelled/lib/math/isa.o: FILE_CFLAGS = -DSMOE_MODELLED
$(OBJ)/cmd/doctor.o: FILE_CFLAGS = $(if $(HTTP),-DSMOE_HTTP)
$(OBJ)/lib/store/env.o: FILE_CFLAGS = -DSMOE_CFLAGS='"$(subst ",\",$(strip -O2 $(STRICT) $(FLAVOUR_CFLAGS) $(CPPFLAGS) $(CFLAGS)))"'

# The HTML of the report is embedded in the library, unchanged.
$(OBJ)/lib/draw/page_part.o: $(wildcard lib/draw/*.html lib/draw/*.css lib/draw/*.js)

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

LINK        = $(call say,LINK,$@)$(CC) $(ALL_CFLAGS) $(CFLAGS) $(HARDEN_LINK) -Wl,--as-needed $(LDFLAGS) -o $@ $(filter %.o %.a,$^)

$(OBJ)/libsmoe.a: $(LIB_OBJ)
$(OBJ)/libcmd.a: $(filter-out %/main.o,$(CMD_OBJ))
$(OBJ)/lib%.a:
	@rm -f $@
	$(call say,AR,$@)$(AR) rcs $@ $^

# Programs load the library by the number in SONAME. It must change if a change of the library breaks programs built before.
SONAME      = libsmoe.so.$(firstword $(subst ., ,$(VERSION)))
SHARED      = libsmoe.so.$(VERSION)
shared: $(OBJ)/$(SHARED)
$(OBJ)/$(SHARED): $(LIB_OBJ) $(OBJ)/smoe.map
	$(LINK) -shared -Wl,-soname,$(SONAME) -Wl,--version-script=$(OBJ)/smoe.map -Wl,-z,defs $(ALL_LDLIBS)

# The shared library gives away the functions of its public header, and nothing else.
$(OBJ)/smoe.map: $(HEADERS)
	@mkdir -p $(@D)
	@{ echo 'SMOE_0 { global:'; sed -n '/^SMOE_API/s/.*[ *]\(smoe_[a-z0-9_]*\)(.*/\1;/p' $(HEADERS); echo 'local: *; };'; } > $@

# A single process never loads it. `make MPI=` builds without it.
$(OBJ)/smoe_mpi.so: $(MPI_SRC) lib/comm/comm.h $(OBJ)/flags
	$(call say,LINK,$@)$(CC) $(ALL_CFLAGS) $(STRICT) $(CFLAGS) $(shell pkg-config --cflags ompi-c) -fPIC -fvisibility=hidden \
	    -shared $(HARDEN_LINK) $(LDFLAGS) -o $@ $< $(shell pkg-config --libs ompi-c)

# Loaded only for tokenizers of this kind. `make SENTENCEPIECE=` builds without it.
$(OBJ)/smoe_sentencepiece.so: lib/text/sentencepiece.cc lib/text/sentencepiece.h $(OBJ)/flags
	$(call say,LINK,$@)$(CXX) -std=c++17 -Ilib $(filter-out -Wstrict-prototypes -Wmissing-prototypes,$(WARNINGS)) -O2 $(CPPFLAGS) $(CXXFLAGS) \
	    $(shell pkg-config --cflags sentencepiece) -fPIC -fvisibility=default -shared $(HARDEN_LINK) $(LDFLAGS) -o $@ $< $(shell pkg-config --libs sentencepiece)

$(OBJ)/smoe: $(call placed,cmd/main.o) $(OBJ)/libcmd.a $(OBJ)/libsmoe.a
	$(LINK) -pie $(ALL_LDLIBS)

# ---- Debian packages: packages.txt lists them in three parts, one rule installs them
names_in    = $(shell sed -n 's/^\([a-z][^ ]*\).*/\1/p' $1)
part        = $(shell sed -n '/^\# $1/,/^$$/s/^\([a-z][^ ]*\).*/\1/p' packages.txt)
NEEDED     := $(call part,Needed)
OPTIONAL   := $(call part,Optional)
DEVELOPERS := $(call part,For developers)
TO_INSTALL  = $(NEEDED) $(OPTIONAL)
# Sets $$missing to those of the packages $1 that are not installed.
find_missing = missing=$$(! command -v dpkg-query >/dev/null || for p in $1; do \
	    dpkg-query -W -f='$${Status}\n' $$p 2>/dev/null | grep -q '^install ok installed' || printf ' %s' $$p; done)

missing:
	@$(call find_missing,$(NEEDED)); [ -z "$$missing" ] || echo "not installed:$$missing (make deps installs them)" >&2

## make deps                 install missing Debian packages of packages.txt, or with OPTIONAL= only those that a build needs
deps:
	@$(call find_missing,$(TO_INSTALL)); [ -n "$$missing" ] || exit 0; \
	if [ "$$(id -u)" = 0 ]; then as=; \
	elif sudo -n true 2>/dev/null; then as=sudo; \
	else echo "These Debian packages are missing:$$missing"; echo "Install them with:"; \
	    echo "    sudo apt-get install$$missing"; echo "and run make again."; exit 1; fi >&2; \
	echo "installing$$missing" >&2; \
	$$as env DEBIAN_FRONTEND=noninteractive apt-get update -q && \
	$$as env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends $$missing

# ---- the two commands of the README. What needs packages runs in a second make, after deps.
QUICK      := runs/quickstart
## make quickstart           install what is missing, build, train a small Soft MoE and its dense twin, compare them: minutes
quickstart: deps
	@$(MAKE) $(SUB) all
	build/smoe train experiments/quickstart.yaml -o $(QUICK) --force
	build/smoe train experiments/quickstart.yaml model.moe.layers=none -o $(QUICK)-dense --force
	@echo
	@for run in $(QUICK) $(QUICK)-dense; do printf '%-24s ' $$run; build/smoe eval -q $$run | grep '^top-1 accuracy' || exit 1; done
	@echo
	@echo "The run is in $(QUICK); 'make quickstart' replaces it. What to type next:"
	@printf '    %-52s %s\n' \
	    'build/smoe inspect $(QUICK)' 'how the tokens were routed' \
	    'build/smoe cost experiments/quickstart.yaml' 'what the model costs' \
	    'build/smoe train experiments/quickstart.yaml seed=1' 'another run, in runs/' \
	    'build/smoe help' 'everything else'

# ---- installing
bindir = $(DESTDIR)$(prefix)/bin
libdir = $(prefix)/lib
incdir = $(DESTDIR)$(prefix)/include/smoe
mandir = $(DESTDIR)$(prefix)/share/man
comdir = $(DESTDIR)$(prefix)/share
# The files that the README refers to, for users without a clone, but for the packed cells of published sweeps, which only repeat and
# test them.
SHARE   := README.md NEWS.md HISTORY.md LICENSE examples experiments

# Where the system looks for libraries after ldconfig, and whose folders stay. Programs find a library elsewhere by a path that
# smoe.pc puts into them.
SYSTEM = $(filter /usr /usr/local,$(prefix))
FOLDERS = bin lib/pkgconfig include $(sort $(foreach m,$(MAN),share/man/man$(lastword $(subst ., ,$m)))) \
    share/bash-completion/completions share/zsh/site-functions share/fish/vendor_completions.d
BLANK_FREE = $(if $(word 2,$(DESTDIR)$(prefix)),$(error DESTDIR and prefix cannot have blanks))
## make install              program, libraries, man pages, completions, examples, experiments (prefix=$(prefix), DESTDIR)
install: all shared
	$(BLANK_FREE)
	install -D -m 755 build/release/smoe $(bindir)/smoe
	install -D -m 644 build/release/libsmoe.a $(DESTDIR)$(libdir)/libsmoe.a
	$(foreach m,$(notdir $(MODULES)),install -D -m 644 build/release/$m $(DESTDIR)$(libdir)/smoe/$m;)
	install -m 644 build/release/$(SHARED) $(DESTDIR)$(libdir)/$(SHARED)
	ln -sf $(SHARED) $(DESTDIR)$(libdir)/$(SONAME)
	ln -sf $(SONAME) $(DESTDIR)$(libdir)/libsmoe.so
	install -D -m 644 -t $(incdir) $(HEADERS)
	mkdir -p $(DESTDIR)$(libdir)/pkgconfig
	sed -e 's,@prefix@,$(prefix),' -e 's,@libdir@,$(libdir),' -e 's,@version@,$(VERSION),' -e 's|@rpath@|$(if $(SYSTEM),,-Wl,-rpath,$${libdir})|' smoe.pc.in > $(DESTDIR)$(libdir)/pkgconfig/smoe.pc
	find $(SHARE) -type f ! -name trials.tar.gz -exec install -D -m 644 {} $(comdir)/smoe/{} \;
	find $(comdir)/smoe -name '*.sh' -exec chmod 755 {} +
	for m in $(MAN:man/%=%); do install -D -m 644 man/$$m $(mandir)/man$${m##*.}/$$m || exit 1; done
	mkdir -p $(comdir)/bash-completion/completions $(comdir)/zsh/site-functions $(comdir)/fish/vendor_completions.d
	build/release/smoe --completion bash > $(comdir)/bash-completion/completions/smoe
	build/release/smoe --completion zsh > $(comdir)/zsh/site-functions/_smoe
	build/release/smoe --completion fish > $(comdir)/fish/vendor_completions.d/smoe.fish
	@$(if $(DESTDIR),:,$(if $(SYSTEM),echo 'Programs find the shared library after ldconfig (as root).' >&2,:))

## make uninstall            remove them
uninstall:
	$(BLANK_FREE)
	rm -f $(bindir)/smoe $(DESTDIR)$(libdir)/pkgconfig/smoe.pc
	rm -f $(addprefix $(DESTDIR)$(libdir)/,libsmoe.a libsmoe.so $(SONAME) $(SHARED))
	rm -f $(foreach m,$(MAN:man/%=%),$(mandir)/man$(lastword $(subst ., ,$m))/$m)
	rm -f $(comdir)/bash-completion/completions/smoe $(comdir)/zsh/site-functions/_smoe \
	    $(comdir)/fish/vendor_completions.d/smoe.fish
	rm -rf $(incdir) $(comdir)/smoe $(DESTDIR)$(libdir)/smoe
	$(if $(DESTDIR)$(if $(SYSTEM),,own),if cd $(DESTDIR)$(prefix) 2>/dev/null; then \
	    rmdir -p --ignore-fail-on-non-empty $(FOLDERS) 2>/dev/null; rmdir --ignore-fail-on-non-empty $(DESTDIR)$(prefix); fi)

## make clean                remove build/
clean:
	rm -rf build

help:
	@sed -n 's/^## //p' $(HELPED) | sed 's,$$(prefix),$(prefix),; s,$$(FUZZ_SECONDS),$(FUZZ_SECONDS),; s,$$(BENCHED),$(BENCHED),'
	@echo 'You can set: CC, CFLAGS, CPPFLAGS, LDFLAGS, LDLIBS, prefix, DESTDIR; V=1 prints whole commands;'
	@echo 'FLAVOUR=release, debug, f64 (double precision), san (sanitizers), cov (coverage) or modelled (AVX-512 and matrix units in C).'
HELPED     := Makefile tests/Makefile experiments/Makefile

include tests/Makefile experiments/Makefile

.PHONY: all shared missing deps quickstart install uninstall clean help always
.SECONDARY: $(ALL_OBJ)
-include $(ALL_OBJ:.o=.d)
