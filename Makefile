# smoe: mixtures of experts in vision, on a CPU. `make help` lists the targets.
# New sources, tests and man pages are found by wildcard: adding one needs no edit here.

prefix     ?= /usr/local
CC         ?= cc
CFLAGS     ?= -O2 -g

PACKAGES   := $(shell sed -n 's/^\([a-z][^ ]*\).*/\1/p' packages.txt)
PKG        := yaml-0.1 jansson libpng libturbojpeg libarchive zlib
BLIS_DIR   := $(firstword $(dir $(wildcard /usr/include/*/blis-openmp/blis.h)))

ALL_CFLAGS  = -std=c11 -D_GNU_SOURCE -Ilib -Icmd -Wall -Wextra -Wpedantic -Wshadow \
              -Wstrict-prototypes -Wmissing-prototypes -Wno-unknown-pragmas -fopenmp -pthread -MMD -MP \
              $(if $(BLIS_DIR),-isystem $(BLIS_DIR)) $(shell pkg-config --cflags $(PKG) 2>/dev/null) $(FLAVOUR_CFLAGS) $(CFLAGS)
ALL_LDLIBS  = $(shell pkg-config --libs $(PKG) 2>/dev/null) -lblis -llapacke -lm -fopenmp -pthread $(LDLIBS)

# A flavour is a tree of objects: release; f64 (real = double, for gradient checks); san (ASan, UBSan).
FLAVOUR    ?= release
OBJ        := build/$(FLAVOUR)
FLAVOUR_CFLAGS_f64 := -DSMOE_F64
FLAVOUR_CFLAGS_san := -O1 -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer
FLAVOUR_CFLAGS      = $(FLAVOUR_CFLAGS_$(FLAVOUR))

LIB_SRC    := $(sort $(wildcard lib/*/*.c))
CMD_SRC    := $(sort $(wildcard cmd/*.c))
LIB_OBJ    := $(LIB_SRC:%.c=$(OBJ)/%.o)
CMD_OBJ    := $(CMD_SRC:%.c=$(OBJ)/%.o)

all: build/smoe

build/smoe: $(OBJ)/smoe
	@ln -sf $(FLAVOUR)/smoe $@

$(OBJ)/libsmoe.a: $(LIB_OBJ)
	@rm -f $@
	$(AR) rcs $@ $^

$(OBJ)/smoe: $(CMD_OBJ) $(OBJ)/libsmoe.a
	$(CC) $(ALL_CFLAGS) $(LDFLAGS) -o $@ $^ $(ALL_LDLIBS)

$(OBJ)/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) -c -o $@ $<

# Tests: tests/test_NAME.c is a program of its own over libsmoe.a and cmocka.
$(OBJ)/tests/%: tests/%.c $(OBJ)/libsmoe.a
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) $(LDFLAGS) -Itests -o $@ $< $(filter %.o,$^) $(OBJ)/libsmoe.a -lcmocka $(ALL_LDLIBS)

clean:
	rm -rf build

.PHONY: all clean
-include $(LIB_OBJ:.o=.d) $(CMD_OBJ:.o=.d)
