// Package command lets a test drive a registry by lines:
//
//	register ADDRESS [NAME=VALUE ...]   registers, or registers anew
//	deregister ADDRESS
//	resolve                             says what a client of the system uses
//
// Each line is answered by one, "=> done", "=> failed: REASON" or, of resolve,
// "=> ADDRESS WEIGHT, ...", in the order of the addresses.  Everything else that
// a library prints is not for the test.  The program ends with its input, and
// registers nothing before it is told.
package command

import (
	"bufio"
	"fmt"
	"os"
	"sort"
	"strings"
)

// Options are the words NAME=VALUE of a command.
type Options map[string]string

// Instances are the weights of addresses.
type Instances map[string]int64

// Registry is what a program does by its system's library.
type Registry interface {
	Register(address string, options Options) error
	Deregister(address string) error
	Resolve() (Instances, error)
}

func (i Instances) String() string {
	texts := make([]string, 0, len(i))

	for address, weight := range i {
		texts = append(texts, fmt.Sprintf("%s %d", address, weight))
	}

	sort.Strings(texts)

	return strings.Join(texts, ", ")
}

func options(words []string) Options {
	options := Options{}

	for _, word := range words {
		name, value, _ := strings.Cut(word, "=")
		options[name] = value
	}

	return options
}

func obey(registry Registry, words []string) (string, error) {
	switch {
	case len(words) == 1 && words[0] == "resolve":
		instances, err := registry.Resolve()
		return instances.String(), err

	case len(words) >= 2 && words[0] == "register":
		return "done", registry.Register(words[1], options(words[2:]))

	case len(words) == 2 && words[0] == "deregister":
		return "done", registry.Deregister(words[1])
	}

	return "", fmt.Errorf("no such command: %q", words)
}

// Run obeys the lines of the standard input.  The program's arguments are the
// address of etcd, and the name of the service.
func Run(open func(etcd, service string) (Registry, error)) {
	out := os.Stdout
	os.Stdout = os.Stderr

	registry, err := open(os.Args[1], os.Args[2])
	if err != nil {
		fmt.Fprintln(out, "=> failed:", err)
		os.Exit(1)
	}

	fmt.Fprintln(out, "=> ready")

	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		answer, err := obey(registry, strings.Fields(lines.Text()))
		if err != nil {
			answer = strings.ReplaceAll("failed: "+err.Error(), "\n", " ")
		}

		fmt.Fprintln(out, "=>", answer)
	}
}
