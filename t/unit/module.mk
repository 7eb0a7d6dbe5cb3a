# What the modules of the tests are compiled with: for the nginx that the
# modules in BUILD were built for.  SOURCE is the tree that is tested.

NGINX_SRC ?= /usr/share/nginx/src
BUILD ?= ../../build
SOURCE ?= ../..

SRC = $(NGINX_SRC)/src

ROOMS = base grpc zone formats etcd watches conf balance members checks \
        leaders upstream elections locks values

TEST_CFLAGS = -g -W -Wall -Wno-unused-parameter -Werror -fPIC \
    -I $(SRC)/core -I $(SRC)/event -I $(SRC)/event/modules \
    -I $(SRC)/event/quic -I $(SRC)/os/unix -I $(BUILD) -I $(BUILD)/etcd \
    -I ../unit $(ROOMS:%=-I $(SOURCE)/src/%)

# those of the modules in BUILD
SANITIZERS = $(filter -fsanitize=%,$(shell grep '^CFLAGS' $(BUILD)/Makefile))

# The modules' own object of a source file, where there is one.
addon = $(wildcard $(BUILD)/addon/$(notdir $(patsubst %/,%,$(dir $1)))/$(notdir \
            $(1:.c=.o)))
