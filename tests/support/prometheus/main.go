// Program prometheus runs Prometheus' own rule reader and query engine.
//
// standard input (JSON): rules as text, scrapes, expressions ──▶ standard output (JSON): the errors of the rules,
// and the result of each expression after each scrape.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"math"
	"os"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/util/teststorage"
)

type series struct {
	Labels map[string]string `json:"labels"`
	Value  float64           `json:"value"`
}

type scrape struct {
	At     int64    `json:"at"`
	Series []series `json:"series"`
}

type question struct {
	Rules       string   `json:"rules"`
	Scrapes     []scrape `json:"scrapes"`
	Expressions []string `json:"expressions"`
}

type answer struct {
	Errors  []string     `json:"errors"`
	Results [][][]series `json:"results"`
}

// failing ends the program, because teststorage expects a test that can fail.
type failing struct{}

func (failing) Errorf(format string, args ...interface{}) { log.Printf(format, args...) }
func (failing) FailNow()                                  { log.Fatal("failed") }

func main() {
	var asked question
	if err := json.NewDecoder(os.Stdin).Decode(&asked); err != nil {
		log.Fatal(err)
	}
	said := answer{Errors: []string{}, Results: [][][]series{}}
	_, errs := rulefmt.Parse([]byte(asked.Rules), false)
	for _, err := range errs {
		said.Errors = append(said.Errors, err.Error())
	}
	storage := teststorage.New(failing{})
	defer storage.Close()
	if err := store(storage, asked.Scrapes); err != nil {
		log.Fatal(err)
	}
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 10_000_000, Timeout: time.Minute})
	for _, expression := range asked.Expressions {
		found := [][]series{}
		for _, one := range asked.Scrapes {
			vector, err := at(engine, storage, expression, one.At)
			if err != nil {
				log.Fatal(err)
			}
			found = append(found, vector)
		}
		said.Results = append(said.Results, found)
	}
	if err := json.NewEncoder(os.Stdout).Encode(said); err != nil {
		log.Fatal(err)
	}
}

// store writes the scrapes; a series ends at the first scrape without it, as with a real target.
func store(storage *teststorage.TestStorage, scrapes []scrape) error {
	before := map[uint64]labels.Labels{}
	for _, one := range scrapes {
		appender := storage.Appender(context.Background())
		there := map[uint64]labels.Labels{}
		for _, sample := range one.Series {
			name := labels.FromMap(sample.Labels)
			there[name.Hash()] = name
			if _, err := appender.Append(0, name, one.At*1000, sample.Value); err != nil {
				return err
			}
		}
		for hash, name := range before {
			if _, ok := there[hash]; !ok {
				if _, err := appender.Append(0, name, one.At*1000, math.Float64frombits(value.StaleNaN)); err != nil {
					return err
				}
			}
		}
		if err := appender.Commit(); err != nil {
			return err
		}
		before = there
	}
	return nil
}

func at(engine *promql.Engine, storage *teststorage.TestStorage, expression string, second int64) ([]series, error) {
	query, err := engine.NewInstantQuery(context.Background(), storage, nil, expression, time.Unix(second, 0))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", expression, err)
	}
	defer query.Close()
	vector, err := query.Exec(context.Background()).Vector()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", expression, err)
	}
	found := []series{}
	for _, sample := range vector {
		if math.IsNaN(sample.F) {
			continue // a quantile of an empty set; JSON cannot express NaN
		}
		found = append(found, series{Labels: sample.Metric.Map(), Value: sample.F})
	}
	return found, nil
}
