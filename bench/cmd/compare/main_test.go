package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/onecall-mcp/onecall/bench/cmd/compare/report"
)

// TestPage holds bench/RESULTS.md to the files of bench/results.
func TestPage(t *testing.T) {
	t.Parallel()
	const root = "../../.."
	all, err := report.ReadAll(names(sections), filepath.Join(root, "bench/results"), filepath.Join(root, countsFolder))
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(root, "bench/RESULTS.md"))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(page, report.Markdown(all, "results/")) {
		t.Errorf("bench/RESULTS.md is out of date: run %s -render", report.Command)
	}
	if bytes.Contains(page, []byte("**no** |")) {
		t.Error("a figure in bench/RESULTS.md misses its target without a reason: give it a Why")
	}
	for _, s := range all {
		for _, p := range s.Plots {
			if _, err := os.Stat(filepath.Join(root, "bench/results", p.Name+".svg")); err != nil {
				t.Error(err)
			}
		}
	}
}

func TestFlags(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"-only nothing": `unknown section "nothing"`,
		"peers":         "unexpected argument",
		"-data nowhere": "-data nowhere: none of nestful_math.jsonl, taubench.jsonl",
		"-data .":       "-data .: none of",
		"-soak 1s":      "-soak 1s is too short",
		"-arms loop":    "-arms is for -only faults",
		// A file has the name of the folder for the results.
		"-only scale -out main.go": "main.go: not a directory",
	} {
		if err := compare(t.Context(), strings.Fields(args)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", args, err, want)
		}
	}
}

// TestWords: no list of a section's words is under a heading that nothing reads.
func TestWords(t *testing.T) {
	t.Parallel()
	for _, s := range sections {
		known := []string{"Corpus", "Comments"}
		for _, part := range s.Parts {
			known = append(known, part.Name)
		}
		for _, heading := range regexp.MustCompile("(?m)^## (.*)$").FindAllStringSubmatch(s.Text, -1) {
			if !slices.Contains(known, heading[1]) {
				t.Errorf("%s: nothing reads what is under %q: use one of %q", s.Name, heading[1], known)
			}
		}
		if !strings.HasPrefix(s.Text, "# ") {
			t.Errorf("%s: the text has no title", s.Name)
		}
	}
}

func TestSelectSections(t *testing.T) {
	t.Parallel()
	if some := selectSections("tasks, scale"); strings.Join(names(some), " ") != "tasks scale" {
		t.Errorf("selectSections: got %v, want tasks and scale", names(some))
	}
}

func TestVariablesToDrop(t *testing.T) {
	t.Parallel()
	environ := []string{"PATH=/bin", "AWS_SECRET_ACCESS_KEY=x", "https_proxy=p", "GOOGLE_API_KEY=y", "GOPROXY=off", "ONECALL_TOKEN=z",
		"ONECALL_TEST_NPM=n", "=C:=C:"}
	if got := variablesToDrop(environ); strings.Join(got, " ") != "AWS_SECRET_ACCESS_KEY GOOGLE_API_KEY ONECALL_TOKEN" {
		t.Errorf("dropped %v, want AWS_SECRET_ACCESS_KEY, GOOGLE_API_KEY and ONECALL_TOKEN", got)
	}
}
