package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/onecall-mcp/onecall/internal/figure"
)

var (
	// figureName matches a comment that names a figure of the comparison: its section, and its name in that section.
	figureName = regexp.MustCompile(`<!-- ([a-z]+)/(\S+) -->`)

	// quotedFigure matches a figure in a document: a number, followed by the comment that names it.
	quotedFigure = regexp.MustCompile(`-?[\d.,]+` + figureName.String())
)

// fillQuotes fills the figures of bench/results and the counts of bench/testdata into all documents. generated holds the pages that are
// generated in the same run; fillQuotes adds every other page that quotes figures.
func fillQuotes(root string, generated map[string][]byte) error {
	pages, err := documentPages(root)
	if err != nil {
		return err
	}
	results := results{folders: []string{filepath.Join(root, "bench/results"), filepath.Join(root, "bench/testdata")}}
	for _, name := range pages {
		text, ok := generated[name]
		if !ok {
			if text, err = os.ReadFile(filepath.Join(root, name)); err != nil {
				return err
			}
		}
		if !figureName.Match(text) {
			continue
		}
		if generated[name], err = results.fill(text); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// documentPages returns the README and the pages below docs.
func documentPages(root string) (names []string, err error) {
	names = []string{"README.md"}
	err = filepath.WalkDir(filepath.Join(root, "docs"), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(path) != ".md" {
			return err
		}
		name, err := filepath.Rel(root, path)
		names = append(names, filepath.ToSlash(name))
		return err
	})
	return names, err
}

// results are the figures of the comparison, by section and name.
type results struct {
	folders  []string // each may have a file of a section
	sections map[string]map[string]figureValue
}

// figureValue is the value of a figure and its goal, if it has one.
type figureValue struct {
	Value float64
	Max   float64 `json:"atMost"`
	Min   float64 `json:"atLeast"`
}

// fill replaces the figures in a page.
func (r *results) fill(page []byte) ([]byte, error) {
	if names, quotes := len(figureName.FindAll(page, -1)), len(quotedFigure.FindAll(page, -1)); names != quotes {
		return nil, fmt.Errorf("%d of %d names of figures have no number before them: write 0<!-- SECTION/FIGURE -->", names-quotes, names)
	}
	var failed error
	filled := quotedFigure.ReplaceAllFunc(page, func(match []byte) []byte {
		name := figureName.FindSubmatch(match)
		f, err := r.figure(string(name[1]), string(name[2]))
		if err != nil {
			failed = err
		}
		return append([]byte(figure.Against(f.Value, max(f.Max, f.Min))), name[0]...)
	})
	return filled, failed
}

// figure returns a figure from the files of its section.
func (r *results) figure(section, name string) (f figureValue, err error) {
	if r.sections[section] == nil {
		if err := r.read(section); err != nil {
			return f, err
		}
	}
	f, ok := r.sections[section][name]
	if !ok {
		return f, fmt.Errorf("the section %s has no figure %s", section, name)
	}
	return f, nil
}

// read reads the figures of a section from its files, of which there must be one.
func (r *results) read(section string) error {
	figures, read := map[string]figureValue{}, false
	for _, folder := range r.folders {
		text, err := os.ReadFile(filepath.Join(folder, section+".json"))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		var file struct {
			Figures []struct {
				Name string
				figureValue
			}
		}
		if err == nil {
			err = json.Unmarshal(text, &file)
		}
		if err != nil {
			return fmt.Errorf("the section %s: %w", section, err)
		}
		read = true
		for _, one := range file.Figures {
			figures[one.Name] = one.figureValue
		}
	}
	if !read {
		return fmt.Errorf("the section %s is in none of %s", section, strings.Join(r.folders, ", "))
	}
	if r.sections == nil {
		r.sections = map[string]map[string]figureValue{}
	}
	r.sections[section] = figures
	return nil
}
