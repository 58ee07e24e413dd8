//go:build unix

package temporal_test

import (
	"encoding/json"
	"maps"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	composed "github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"
	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/internal/sqldb/postgrestest"
)

const composeFolder = "../deploy/compose"

// loadCompose loads the compose file as docker compose does.
func loadCompose(t *testing.T, variables ...string) (*types.Project, error) {
	t.Helper()
	o, err := composed.NewProjectOptions([]string{filepath.Join(composeFolder, "compose.yaml")}, composed.WithEnv(variables),
		composed.WithProfiles([]string{"client"}))
	if err != nil {
		t.Fatal(err)
	}
	return o.LoadProject(t.Context())
}

// TestComposeSecrets: nothing starts with well-known secrets.
func TestComposeSecrets(t *testing.T) {
	t.Parallel()
	for _, only := range []string{"POSTGRES_PASSWORD=a", "JOURNAL_KEY=a"} {
		if _, err := loadCompose(t, only); err == nil || !strings.Contains(err.Error(), "write it into .env") {
			t.Errorf("with only %s set: %v, want an error that names .env", only, err)
		}
	}
}

// thirdParty are the services of third parties, with their addresses.
var thirdParty = map[string]string{"temporal": "temporal:7233", "postgres": "postgres:5432"}

// TestComposeServices: third-party services have a version, a health check and a volume. Our services wait for them, and cannot write.
func TestComposeServices(t *testing.T) {
	t.Parallel()
	project, err := loadCompose(t, "POSTGRES_PASSWORD=a", "JOURNAL_KEY=b")
	if err != nil {
		t.Fatal(err)
	}
	if names := slices.Sorted(maps.Keys(project.Services)); !slices.Equal(names, []string{"client", "postgres", "temporal", "worker"}) {
		t.Fatalf("got services %q, want client, postgres, temporal and worker", names)
	}
	for name, service := range project.Services {
		for _, port := range service.Ports {
			if !net.ParseIP(port.HostIP).IsLoopback() {
				t.Errorf("%s: port %s is open to other machines", name, port.Published)
			}
		}
		if thirdParty[name] != "" {
			if _, tag, _ := strings.Cut(service.Image, ":"); tag == "" || tag == "latest" || service.HealthCheck == nil ||
				len(service.Volumes) != 1 {
				t.Errorf("%s: got image %s, health check %v, volumes %v, want a version, a check and 1",
					name, service.Image, service.HealthCheck, service.Volumes)
			}
			continue
		}
		for other := range thirdParty {
			if service.DependsOn[other].Condition != types.ServiceConditionHealthy {
				t.Errorf("%s does not wait for %s", name, other)
			}
		}
		if !service.ReadOnly || !slices.Equal(service.CapDrop, []string{"ALL"}) {
			t.Errorf("%s: got read-only %t, dropped %v, want true and ALL", name, service.ReadOnly, service.CapDrop)
		}
		for _, volume := range service.Volumes {
			if _, err := os.Stat(volume.Source); err != nil || !volume.ReadOnly {
				t.Errorf("%s: got volume %+v, %v, want an existing one, read-only", name, volume, err)
			}
		}
		if file, err := os.Stat(filepath.Join(service.Build.Context, service.Build.Dockerfile)); err != nil || file.IsDir() {
			t.Errorf("%s: got error %v, want a container file", name, err)
		}
	}
}

// TestCompose runs the compose file without containers: each program with its flags and environment from the file, at addresses of this
// machine. The client and the workers can write no file.
func TestCompose(t *testing.T) {
	t.Parallel()
	project, err := loadCompose(t, "POSTGRES_PASSWORD=hunter2", "JOURNAL_KEY=a key that all who take part have got")
	if err != nil {
		t.Fatal(err)
	}
	folder, err := filepath.Abs(composeFolder)
	if err != nil {
		t.Fatal(err)
	}
	temporal, worker, client := project.Services["temporal"], project.Services["worker"], project.Services["client"]
	data, etc := t.TempDir(), t.TempDir()
	s := &stack{home: filepath.Join(folder, "chains"), postgres: postgrestest.Start(t)}
	s.temporalServer = startTemporal(t, replaced(temporal.Command[2:], "0.0.0.0", "127.0.0.1", "/home/temporal", data)...)
	if out, err := s.cli(temporal.HealthCheck.Test[2:]...).CombinedOutput(); err != nil {
		t.Errorf("the health check of the Temporal server: %v: %s", err, out)
	}
	if _, err := os.Stat(filepath.Join(data, "temporal.db")); err != nil {
		t.Error(err)
	}

	variables, command := image(t)
	for name, value := range client.Environment {
		variables = append(variables, name+"="+*value)
	}
	s.variables = replaced(variables, thirdParty["temporal"], s.address,
		"postgres://onecall:hunter2@"+thirdParty["postgres"]+"/onecall", s.postgres.Database(t),
		"=/etc/onecall/", "="+folder+"/", "=/etc", "="+etc, "=/var/", "=/dev/null/")
	t.Cleanup(func() { s.endWorkers(t) })
	for range *worker.Deploy.Replicas {
		s.startWorker(t, replaced(command, "0.0.0.0:9090", "127.0.0.1:0")[1:]...)
	}
	answers, message, status := s.run(t, "run", "--durable", "squares.jsonl")
	if got := regexp.MustCompile(`"result":(\d+)`).FindAllString(answers, -1); status != "0" || len(got) != 3 || got[2] != `"result":81` {
		t.Errorf("run: got exit %s, want 0 and the results of 3 squares, 81 last: %s: %s", status, answers, message)
	}
	listed, message, status := s.run(t, "runs", "--json")
	if gjson.Get(listed, "runs.0.parts.ok").Int() != 3 {
		t.Errorf("runs: got exit %s, want 3 ok parts: %s: %s", status, listed, message)
	}
	if files, err := os.ReadDir(etc); err != nil || len(files) > 0 {
		t.Errorf("got files %v of the client or a worker (%v), want none", files, err)
	}
}

// replaced returns texts in which each of some words is replaced by the one after it.
func replaced(texts []string, words ...string) (list []string) {
	r := strings.NewReplacer(words...)
	for _, text := range texts {
		list = append(list, r.Replace(text))
	}
	return list
}

// image returns the variables of the image of workers, and the command that it runs.
func image(t *testing.T) (variables, command []string) {
	t.Helper()
	text, err := os.ReadFile(composeFolder + "/Containerfile")
	if err != nil {
		t.Fatal(err)
	}
	match := regexp.MustCompile(`(?m)^ENV (.*)\n(?:.*\n)*ENTRYPOINT \["/usr/local/bin/onecall-temporal"\]\nCMD (.*)$`).FindSubmatch(text)
	if match == nil || json.Unmarshal(match[2], &command) != nil {
		t.Fatalf("the container file lacks ENV, ENTRYPOINT or CMD: %s", text)
	}
	return strings.Fields(string(match[1])), command
}
