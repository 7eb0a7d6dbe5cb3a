# nginx-etcd: everything is built below build/, nginx's own files are not
# touched.  `make help` lists the targets.

NGINX_SRC = /usr/share/nginx/src
NGINX     = nginx
DESTDIR   =
MANDIR    =
ETCD      =
T         =
J         = 4

# make and nginx's configure take other paths apart, and "clean" would remove
# another directory

ODD := $(shell pwd | LC_ALL=C tr -d 'A-Za-z0-9/._+@,=~\n\200-\377-')

ifneq ($(ODD)$(word 2,$(CURDIR)),)
    $(error nginx-etcd is not built in "$(CURDIR)": white space, and any of \
        '$(ODD)', must not be in the path)
endif

$(foreach name,NGINX NGINX_SRC DESTDIR MANDIR ETCD BUILD,\
    $(if $(word 2,$($(name))),$(error $(name)="$($(name))" has white space)))

BUILD   = $(CURDIR)/build
ASAN    = $(BUILD)/asan

CHECK   = J=$(J) TEST_NGINX_BINARY=$(NGINX) TEST_NGINX_MODULES=$(BUILD) \
          tools/etcd $(BUILD) '$(ETCD)'

.PHONY: all packages ports etcd demo test test-all test-rest test-upgrade \
        matrix test-clients test-patroni soak crash sim mutations bench asan \
        fuzz lint warnings figures docs install deb deb-test image-test clean \
        help

# nginx is not in the PATH of Debian's ordinary users
export PATH := $(PATH):/usr/sbin:/sbin

# Not exported: to nginx a variable NGINX means the sockets of its predecessor
unexport NGINX
CHOICE = NGINX=$(NGINX) NGINX_SRC=$(NGINX_SRC)

all: packages
	@$(CHOICE) tools/build $(BUILD)

packages:
	@$(CHOICE) tools/packages build

# what would end a target later is said before anything is built

.NOTPARALLEL:

ports:
	@tools/demo ports

etcd:
	@$(CHOICE) tools/packages build test
	@$(CHECK) true

demo: ports etcd all
	@$(CHECK) tools/demo

# The pages are looked at in a browser, Prometheus reads the metrics, and pandoc
# the documentation, in what "make test" leaves out.

test: etcd all
	@$(if $(T),$(CHOICE) tools/packages pages docs)
	@$(MAKE) -s $(BUILD)/fake_etcd
	@$(CHECK) tools/test $(or $(T),core)

test-all test-rest: etcd all
	@$(CHOICE) tools/packages pages docs
	@$(MAKE) -s $(BUILD)/fake_etcd
	@$(CHECK) tools/test $(@:test-%=%)

# of a real cluster: the test finds these etcds beside the modules

test-upgrade: etcd all
	@tools/etcd $(BUILD) 3.5 true
	@tools/etcd $(BUILD) 3.6 true
	@tools/etcd $(BUILD) 3.7 true
	@$(CHECK) tools/test t/faults/upgrade.t

# of NGINX_SRC here, only a tree of one's own is nginx for the cell "mainline"

MATRIX = debian12 debian13 sid $(if $(OWN_SRC),mainline)
OWN_SRC = $(filter-out /usr/share/nginx/src,$(NGINX_SRC))

matrix:
	@tools/packages root
	@NGINX_SRC=$(OWN_SRC) ETCD= T='$(or $(T),all)' J=$(J) tools/matrix $(MATRIX)

# Instances that go-zero, Kratos and others register by their own libraries; and
# the judge of locks that is somebody else's

test-clients: etcd all
	@$(CHOICE) tools/packages clients
	@tools/clients $(BUILD)/clients
	@$(CHECK) prove -v t/clients t/locks/lock_beside_go.t

test-patroni: etcd all
	@$(CHOICE) tools/packages patroni
	@$(CHECK) prove -v t/patroni

SOAK = 600
SEED =

soak: etcd all
	@TEST_SOAK=$(SOAK) TEST_SEED=$(SEED) $(CHECK) prove -v \
	    t/elections/never_two.t t/leaders/switchover.t \
	    t/locks/lock_safety.t t/faults/crash.t

crash: etcd all
	@$(CHECK) prove -v t/faults/crash.t

SEEDS = 100000

sim: etcd all
	@$(MAKE) -s -C t/sim NGINX_SRC=$(NGINX_SRC) BUILD=$(BUILD)
	@NGINX=$(NGINX) t/sim/run $(BUILD)/sim/ngx_etcd_sim_module.so \
	    $(or $(SEED),1) $(SEEDS) $(J) $(or $(TRACE),0)

mutations: etcd all
	@$(MAKE) -s -C t/sim NGINX_SRC=$(NGINX_SRC) BUILD=$(BUILD)
	@NGINX=$(NGINX) NGINX_SRC=$(NGINX_SRC) t/sim/mutate $(BUILD) $(SEEDS)

bench: etcd all
	@$(CHOICE) tools/packages bench
	@$(CHOICE) tools/packages go patroni || echo 'going on without them'
	@$(CHECK) tools/bench $(T)

# with sanitizers tests compute more than they wait

asan: J = 3
asan: etcd
	@$(CHOICE) tools/packages pages asan
	@tools/asan $(ASAN)
	@$(MAKE) -s $(ASAN)/fake_etcd
	@$(CHECK) env TEST_NGINX_BINARY=$(ASAN)/nginx/nginx \
	    TEST_NGINX_MODULES=$(ASAN) TEST_SLOWER=4 TEST_NAMES=100 \
	    ASAN_OPTIONS=detect_leaks=0:detect_odr_violation=0 \
	    tools/test $(or $(T),sanitize)

# beside the modules, whose protobuf-c code it uses

%/fake_etcd: $(wildcard t/fake/*.[ch]) proto/etcd.proto
	$(CC) -g -O1 -Wall -I$*/etcd -It/fake -o $@ t/fake/*.c \
	    $*/etcd/ngx_etcd_proto.pb-c.c -lnghttp2 -lprotobuf-c

fuzz: packages
	@$(CHOICE) tools/packages fuzz
	@tools/fuzz $(BUILD)/fuzz

lint:
	@tools/lint

warnings: packages
	@$(CHOICE) tools/packages warnings
	@$(CHOICE) tools/warnings $(BUILD)/warnings

figures:
	@$(CHOICE) tools/packages figures
	@tools/figures

docs:
	@$(CHOICE) tools/packages docs
	@tools/docs $(BUILD)/docs
	@echo '$(BUILD)/docs/html/index.html'
	@echo '$(BUILD)/docs/ngx_etcd.5'

install: all
	@$(CHOICE) DESTDIR=$(DESTDIR) MANDIR=$(MANDIR) tools/install $(BUILD)

deb: packages
	@$(CHOICE) tools/packages deb docs
	@tools/deb $(BUILD)/deb
	@tools/deb_check $(BUILD)/deb

SUITE =

deb-test:
	@$(CHOICE) tools/packages root
	@tools/deb_test $(BUILD)/deb-test $(SUITE)

image-test:
	@$(CHOICE) tools/packages test root image
	@tools/image_test $(BUILD)/image-test $(SUITE)

clean:
	rm -rf $(BUILD)

help:
	@echo 'make            build the modules into build/'
	@echo 'make demo       see it work: etcd, backends and nginx on port 8080'
	@echo '                (PORT=8081: another port, DEMO_ONCE=1: do not stay)'
	@echo 'make test       run the tests that show most in five minutes,'
	@echo '                T=t/conf/load.t runs one'
	@echo 'make test-all   run all tests; test-rest: what "make test" leaves out'
	@echo 'make test-upgrade'
	@echo '                upgrade a cluster of etcd 3.5 to 3.6 and 3.7, and back'
	@echo '                to 3.6, under load; builds these etcds with Go'
	@echo 'make matrix     all this in clean roots of Debian 12, 13 and sid, and'
	@echo '                with NGINX_SRC= on Debian 12 (MATRIX=debian13 chooses)'
	@echo 'make test-clients'
	@echo '                register instances by the libraries of go-zero, Kratos,'
	@echo '                Kitex and others (needs Go, npm and a network)'
	@echo 'make test-patroni'
	@echo '                run PostgreSQL under Patroni behind nginx'
	@echo 'make soak       storms of faults for SOAK=600 seconds: never two'
	@echo '                leaders; and leaders that resign and die under load;'
	@echo '                and locks: never two holders, no lost update, nothing'
	@echo '                left over (SEED=: the storms of another run); and kills'
	@echo '                at every instruction that changes shared memory'
	@echo 'make crash      kills at the worst of these instructions'
	@echo 'make sim        SEEDS=100000 seeds of a simulation: the client against'
	@echo '                a model of etcd, on a virtual clock (SEED= is the first'
	@echo '                one, TRACE=1 says what happens)'
	@echo 'make mutations  show that the simulation finds faults'
	@echo 'make bench      run the benchmarks'
	@echo 'make asan       run all tests under AddressSanitizer and UBSan'
	@echo 'make fuzz       fuzz what reads values and gRPC, and what writes the'
	@echo '                status (FUZZ_SECONDS=600 each)'
	@echo 'make lint       check style and layering'
	@echo 'make warnings   compile with gcc and clang, -Wall -Wextra -Werror'
	@echo 'make figures    count lines, functions, comments, cycles'
	@echo 'make docs       make of docs/ pages for a browser, with a search, and a'
	@echo '                page for man, in build/docs/'
	@echo 'make install    install the modules, nginx-etcd-check, and pages for'
	@echo '                man: ngx_etcd(5) after "make docs" (DESTDIR= and'
	@echo '                MANDIR= are honoured)'
	@echo 'make deb        build Debian packages into build/deb/'
	@echo 'make deb-test   install, upgrade and remove them in a clean root of'
	@echo '                Debian (SUITE=trixie: another one than this)'
	@echo 'make image-test build and start the image of packaging/container/, as'
	@echo '                root, without a daemon (SUITE=bookworm: upon another'
	@echo '                Debian)'
	@echo 'make clean      remove build/'
	@echo
	@echo 'NGINX=          the nginx binary           (nginx)'
	@echo 'NGINX_SRC=      its headers or full source (/usr/share/nginx/src)'
	@echo 'ETCD=           another etcd than the one that is installed: a release'
	@echo '                to build with Go (3.7, 3.6), a suite of Debian (sid),'
	@echo '                or a directory with etcd and etcdctl'
	@echo 'PACKAGES=no     install no Debian packages'
