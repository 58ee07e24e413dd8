//go:build unix

package files_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/onecall-mcp/onecall/steps/source/files"
)

// writeUntilKilled is the variable that makes this test binary a program that writes files in the folder that it names.
const writeUntilKilled = "ONECALL_TEST_WRITE_IN"

func TestMain(m *testing.M) {
	if root := os.Getenv(writeUntilKilled); root != "" {
		if err := writeForever(root); err != nil {
			fmt.Println(err)
		}
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// writeForever replaces the file "file", a page of one letter, by that of the next letter, and prints a line for each.
func writeForever(root string) error {
	s, err := files.New(&files.Options{Root: root, Write: []string{"."}})
	if err != nil {
		return err
	}
	write := function(s, "fs.write").Call
	for i := 0; ; i++ {
		args := fmt.Sprintf(`{"path":"file","text":%q}`, page(i))
		if _, err := write(context.Background(), []byte(args)); err != nil {
			return err
		}
		fmt.Println("written")
	}
}

func page(i int) string { return strings.Repeat(string(rune('a'+i%26)), 64<<10) }

// TestKilledWhileWriting: a program that is killed at any moment leaves the content before or after a write, whole.
func TestKilledWhileWriting(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	for kills := range 20 {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), writeUntilKilled+"="+root)
		out, err := cmd.StdoutPipe()
		must(t, err)
		must(t, cmd.Start())
		lines := bufio.NewScanner(out)
		for range 1 + kills%3 {
			if !lines.Scan() || lines.Text() != "written" {
				t.Fatalf("the program says %q, %v", lines.Text(), lines.Err())
			}
		}
		must(t, cmd.Process.Signal(syscall.SIGKILL))
		_ = cmd.Wait() // it was killed
		text, err := os.ReadFile(filepath.Join(root, "file"))
		if must(t, err); len(text) != 64<<10 || strings.Trim(string(text), string(text[:1])) != "" {
			t.Fatalf("after kill %d the file has %d bytes of several writes", kills, len(text))
		}
	}
}
