// Judges a history by porcupine, a checker of linearizability:
//
//	porcupine mutex|counter < HISTORY
//
// Each line of the history is an operation of t/lib/Linearizability.pm, in JSON:
//
//	call, return  the time of each, in seconds; without "return" the operation
//	              took effect at any time after "call"
//	what          acquire, with "who" and "token", or release, with "who"
//	              add, with "wrote", the value that it has written
//
// Prints "ok" or "illegal", and ends with 0 if it could judge.

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"log"
	"math"
	"os"

	"github.com/anishathalye/porcupine"
)

type operation struct {
	Call   float64
	Return *float64
	What   string
	Who    string
	Token  int64
	Wrote  int64
}

type mutex struct {
	holder string
	token  int64 // the highest so far
}

// One holds the mutex at a time, by a token above all before.

func (m mutex) next(o operation) (bool, any) {
	switch o.What {
	case "acquire":
		return m.holder == "" && o.Token > m.token, mutex{o.Who, o.Token}
	case "release":
		return m.holder == o.Who, mutex{"", m.token}
	}

	return false, m
}

// What two add at a time, none of them loses.

type counter int64

func (c counter) next(o operation) (bool, any) {
	return o.What == "add" && o.Wrote == int64(c)+1, counter(o.Wrote)
}

type state interface {
	next(operation) (bool, any)
}

var initial = map[string]state{"mutex": mutex{}, "counter": counter(0)}

func moment(seconds float64) int64 { return int64(seconds * 1e6) }

func read(from io.Reader) ([]porcupine.Operation, error) {
	var history []porcupine.Operation

	for lines := json.NewDecoder(from); ; {
		var o operation

		if err := lines.Decode(&o); err == io.EOF {
			return history, nil
		} else if err != nil {
			return nil, err
		}

		until := int64(math.MaxInt64)
		if o.Return != nil {
			until = moment(*o.Return)
		}

		history = append(history, porcupine.Operation{
			Input: o, Call: moment(o.Call), Return: until,
		})
	}
}

func main() {
	log.SetFlags(0)

	if len(os.Args) != 2 || initial[os.Args[1]] == nil {
		log.Fatal("usage: porcupine mutex|counter < HISTORY")
	}

	history, err := read(os.Stdin)
	if err != nil {
		log.Fatal(err)
	}

	model := porcupine.Model{
		Init: func() any { return initial[os.Args[1]] },
		Step: func(at, input, _ any) (bool, any) {
			return at.(state).next(input.(operation))
		},
	}

	if porcupine.CheckOperations(model, history) {
		fmt.Println("ok")
	} else {
		fmt.Println("illegal")
	}
}
