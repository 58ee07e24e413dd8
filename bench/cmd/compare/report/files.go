package report

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
)

// ReadAll reads the sections of these names from folders, by name in their order, and for a name in the order of the folders. Folders that
// lack a section are skipped.
func ReadAll(names []string, folders ...string) ([]*Section, error) {
	var all []*Section
	for _, name := range names {
		for _, folder := range folders {
			path := filepath.Join(folder, name+".json")
			text, err := os.ReadFile(path)
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err != nil {
				return nil, err
			}
			s := &Section{}
			if err := json.Unmarshal(text, s); err != nil {
				return nil, fmt.Errorf("%s: %w: measure the section again", path, err)
			}
			all = append(all, s)
		}
	}
	return all, nil
}

// Write writes the section to a file in a folder.
func (s *Section) Write(folder string) error {
	if err := s.validate(); err != nil {
		return fmt.Errorf("section %s: %w", s.Name, err)
	}
	text, err := json.MarshalIndent(s, "", "\t")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, s.Name+".json"), append(text, '\n'), 0o644)
}

// validate returns an error if the documents cannot be generated from the section.
func (s *Section) validate() error {
	seen := map[string]bool{}
	for _, f := range s.Figures {
		switch {
		case seen[f.Name]:
			return fmt.Errorf("two figures have the name %s", f.Name)
		case f.How != Measured && f.How != Computed:
			return fmt.Errorf("figure %s is neither measured nor computed", f.Name)
		case math.IsNaN(f.Value) || math.IsInf(f.Value, 0):
			return fmt.Errorf("figure %s is %v", f.Name, f.Value)
		}
		seen[f.Name] = true
	}
	for _, t := range s.Tables {
		for _, r := range t.Rows {
			if len(r.Cells) != len(t.Columns)-1 {
				return fmt.Errorf("row %q of table %q has %d cells, want %d", r.Name, t.Title, len(r.Cells), len(t.Columns)-1)
			}
		}
	}
	return nil
}
