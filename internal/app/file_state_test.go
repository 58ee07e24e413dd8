package app

import (
	"os"
	"testing"
)

// TestTwoConfigurations: two configurations in one folder are refused. Both are watched, so that the removal of one of them is noticed.
func TestTwoConfigurations(t *testing.T) {
	folder := t.TempDir()
	t.Chdir(folder)
	write(t, folder, "onecall.yaml", "{}")
	second := write(t, folder, "onecall.json", "{}")
	a := &App{process: processOf(Options{}, serverTraits{serve: true})}
	if _, faults := a.load(); len(faults) != 1 || len(a.files) != 2 {
		t.Fatalf("%d faults, want 1: %v; %d watched files, want 2: %v", len(faults), faults, len(a.files), a.files)
	}
	if err := os.Remove(second); err != nil {
		t.Fatal(err)
	}
	if a.files.restat().sameStat(a.files) || a.files.reread().sameContent(a.files) {
		t.Error("restat or reread does not notice that one configuration was removed")
	}
}
