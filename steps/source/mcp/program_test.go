package mcp_test

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	mcpsource "github.com/onecall-mcp/onecall/steps/source/mcp"
)

// TestFindProgram: FindProgram finds a program like a start does.
func TestFindProgram(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("programs have other names on Windows")
	}
	folder := filepath.Join(t.TempDir(), "bin")
	program := filepath.Join(folder, "my-server")
	if err := errors.Join(os.Mkdir(folder, 0o755), os.WriteFile(program, []byte("#!/bin/sh\n"), 0o755)); err != nil {
		t.Fatal(err)
	}
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	relative, err := filepath.Rel(here, folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range []struct {
		o    mcpsource.Options
		path string
		want mcpsource.Program
	}{
		{mcpsource.Options{Command: "./my-server", Dir: relative}, "/nowhere", mcpsource.Program{Path: program}},
		{mcpsource.Options{Command: "bin/my-server", Dir: filepath.Dir(relative)}, "/nowhere", mcpsource.Program{Path: program}},
		{mcpsource.Options{Command: relative + "/my-server"}, "/nowhere", mcpsource.Program{Path: program}},
		{mcpsource.Options{Command: "my-server"}, folder, mcpsource.Program{Path: program}},
		{mcpsource.Options{Command: "my-server"}, "/nowhere", mcpsource.Program{}},
		{mcpsource.Options{Command: "my-server", Env: map[string]string{"PATH": "/nowhere"}}, folder, mcpsource.Program{}},
		{mcpsource.Options{Command: program}, "/nowhere", mcpsource.Program{Path: program}},
		{mcpsource.Options{Command: "./my-server", Dir: folder}, "/nowhere", mcpsource.Program{Path: program}},
		{mcpsource.Options{Command: program + "x"}, folder, mcpsource.Program{}},
	} {
		if got := mcpsource.FindProgram(&one.o, one.path); got != one.want {
			t.Errorf("%s with %s: %+v, want %+v", one.o.Command, one.path, got, one.want)
		}
	}
}
