package cli

import (
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/app"
	"github.com/onecall-mcp/onecall/internal/chainfile"
	"github.com/onecall-mcp/onecall/internal/config"
	"github.com/onecall-mcp/onecall/internal/textfile"
	"github.com/onecall-mcp/onecall/steps"
)

// chainList is the answer of list --json.
type chainList struct {
	Chains []savedChain `json:"chains"`
	Broken []string     `json:"broken,omitempty"`
	Away   []string     `json:"away,omitempty"` // valid, and not usable here
}

type savedChain struct {
	Name        string `json:"name"`
	Function    string `json:"fn"`
	File        string `json:"file"`
	Effect      string `json:"effect"`
	Tier        string `json:"tier"`
	Signature   string `json:"signature"`
	Description string `json:"description,omitempty"`
}

func newListCommand(c *cli) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the saved chains",
		Long: "List the chains in the folder chains beside the configuration (in the working directory, if there is none), with their\n" +
			"params and the strongest effect of their steps. It waits until each source has started or failed.",
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			a, err := c.open(cmd.Context(), app.Options{})
			if err != nil {
				return err
			}
			defer closeInto(a, &err)
			line := c.startProgress()
			list := listChains(cmd.Context(), a)
			line.stop()
			if asJSON {
				return c.writeValue(list)
			}
			for _, f := range append(a.SuspectChains(), a.AwayChains()...) {
				c.warn(f)
			}
			return c.writeChains(list)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "answer JSON")
	return cmd
}

func listChains(ctx context.Context, a *app.App) *chainList {
	list := &chainList{Chains: []savedChain{}}
	for _, entry := range steps.Await(ctx, a.Catalog, nil).All() {
		spec := entry.Spec()
		if spec.Saved == nil {
			continue
		}
		list.Chains = append(list.Chains, savedChain{Name: strings.TrimPrefix(spec.Name, steps.ChainSource+"."), Function: spec.Name,
			File: a.ChainFile(spec.Name), Effect: spec.Effect.String(), Tier: spec.MinimumTier().String(),
			Signature: entry.Signature(), Description: spec.Description})
	}
	for _, f := range a.BrokenChains() {
		list.Broken = append(list.Broken, f.Message)
	}
	for _, f := range a.AwayChains() {
		if errors.Is(f, steps.ErrCredential) { // else it is in broken
			list.Away = append(list.Away, f.Message)
		}
	}
	return list
}

func (s *streams) writeChains(list *chainList) error {
	switch {
	case len(list.Chains) == 0 && len(list.Broken) > 0: // warnings say what is wrong with each
		s.noticef("no saved chain can be used: %s broken", pluralOf(int64(len(list.Broken)), "is", "are"))
		return nil
	case len(list.Chains) == 0:
		s.noticef("there are no saved chains: onecall new NAME writes one")
		return nil
	}
	t := &table{notesAt: 2, columns: []column{{name: "NAME"}, {name: "EFFECT", style: effectColor}, {name: "CALL"}}}
	for _, saved := range list.Chains {
		r := row{cells: []string{saved.Name, saved.Effect, saved.Signature}}
		if saved.Description != "" {
			r.notes = []string{saved.Description}
		}
		t.rows = append(t.rows, r)
	}
	return s.writeTable(t)
}

//go:embed new.chain.jsonc
var newChain []byte

func newNewCommand(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:   "new NAME",
		Short: "Write a saved chain to start from",
		Long: "Write an example of a saved chain, ready to run, to the folder chains beside the configuration (in the working\n" +
			"directory, if there is none). No file is overwritten.",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usageErrorf("new needs one name for the chain")
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error { return c.writeNew(args[0]) },
	}
}

func (c *cli) writeNew(name string) error {
	configPath, f := config.Find(c.configPath)
	if f != nil {
		return opError{f}
	}
	path, err := createChain(app.ChainsFolder(configPath), name, ".chain.jsonc", newChain)
	if err != nil {
		return err
	}
	return c.writeText([]byte(textfile.Printable(path) + "\n"))
}

// createChain writes the file of a new saved chain and returns its path.
func createChain(folder, name, suffix string, text []byte) (path string, err error) {
	if f := chainfile.CheckName(name); f != nil {
		return "", opError{f}
	}
	if existing := chainfile.InFolder(folder, name); existing != "" {
		return "", opErrorf("%s already exists: choose another name, or remove it", textfile.Printable(existing))
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return "", opErrorf("the folder %s cannot be created: %v", folder, textfile.Cause(err))
	}
	path = filepath.Join(folder, name+suffix)
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err == nil {
		_, err = file.Write(text)
		if err = errors.Join(err, file.Close()); err != nil {
			os.Remove(path) // a part of the text would be in the way of the next try
		}
	}
	if errors.Is(err, fs.ErrExist) {
		return "", opErrorf("%s already exists: choose another name, or remove it", textfile.Printable(path))
	}
	if err != nil {
		return "", app.Failure{Err: fmt.Errorf("%s cannot be written: %w", path, textfile.Cause(err))}
	}
	return path, nil
}

// setChainHelp makes a command's help show the saved chain that its arguments name.
func (c *cli) setChainHelp(cmd *cobra.Command) {
	standard := cmd.HelpFunc()
	cmd.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		if cmd.Flags().NArg() > 0 {
			c.helpError = c.showChain(cmd.Context(), cmd.Flags().Arg(0))
			return
		}
		standard(cmd, args)
	})
}

// showChain shows the signature, description, params and result of a saved chain.
func (c *cli) showChain(ctx context.Context, name string) (err error) {
	files, err := chainfile.Find([]string{name}, c.chainFolders())
	if err != nil {
		return exitErrorOfFiles(err)
	}
	file := files[0]
	if file.Path == "" || file.Lines {
		return opErrorf("%s is not a saved chain, and has no help of its own: onecall list lists saved chains", name)
	}
	a, err := c.open(ctx, app.Options{NoSources: true})
	if err != nil {
		return err
	}
	defer closeInto(a, &err)
	short := cmp.Or(chainfile.NameOf(file.Path), "chain")
	fn, faults := a.ReadChain(chainfile.SavedFile{Name: short, Path: file.Path})
	if len(faults) > 0 {
		text, _ := textfile.ReadFound(file.Path, a.MaxRequestBytes)
		c.showFaults(&document{name: file.Path, text: text}, faults)
		return exitError(fault.Compile.Exit())
	}
	registry, err := steps.NewRegistry([]steps.Function{*fn}, nil)
	if err != nil {
		return opError{err}
	}
	var b bytes.Buffer
	for _, entry := range registry.All() {
		fmt.Fprintln(&b, textfile.Printable(entry.Signature()))
		if text := entry.Spec().Description; text != "" {
			fmt.Fprintf(&b, "\n%s\n", textfile.Printable(text))
		}
		writeOutlines(&b, entry)
	}
	fmt.Fprintf(&b, "\nonecall run %s --set NAME=VALUE\n", textfile.Printable(name))
	return c.writeText(b.Bytes())
}

// completeChains completes the names of saved chains; the shell completes files.
func (c *cli) completeChains(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveDefault
	}
	var names []string
	for _, folder := range c.chainFolders() {
		list, _ := chainfile.List(cmp.Or(folder, "."))
		for _, file := range list {
			names = append(names, completion(file.Name, descriptionOf(file.Path)))
		}
	}
	return names, cobra.ShellCompDirectiveDefault
}

// completeParams completes the params of the chain file or saved chain in a command line.
func (c *cli) completeParams(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) == 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	files, err := chainfile.Find(args[:1], c.chainFolders())
	if err != nil || files[0].Path == "" {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []string
	text, faults := chainfile.ReadSaved(files[0].Path, chain.DefaultMaxRequestBytes)
	if len(faults) == 0 {
		gjson.GetBytes(text.JSON, "params").ForEach(func(name, param gjson.Result) bool {
			names = append(names, completion(name.String()+"=", param.Get("description").Str))
			return true
		})
	}
	return names, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}

// descriptionOf returns the description in a saved chain's file; "": there is none, or the file has faults.
func descriptionOf(path string) string {
	text, faults := chainfile.ReadSaved(path, chain.DefaultMaxRequestBytes)
	if len(faults) > 0 || !gjson.ValidBytes(text.JSON) {
		return ""
	}
	return gjson.GetBytes(text.JSON, "description").Str
}

// completion returns a word that completes a command line, with a description for the shell to show; line may be "".
func completion(word, line string) string {
	if line = textfile.Printable(fault.ClipRunes(line, 100)); line == "" {
		return word
	}
	return word + "\t" + line
}

// chainName returns the name under which the runs of a file's chain are listed, if the chain has none: that of the function that a file in
// a folder of saved chains defines, else the file's; "": the chain comes from the standard input.
func (c *cli) chainName(file *chainfile.File) string {
	if file.Path == "" {
		return ""
	}
	name := chainfile.NameOf(file.Path)
	if name == "" || !slices.Contains(c.chainFolders()[1:], filepath.Dir(file.Path)) {
		return filepath.Base(file.Path)
	}
	return steps.ChainSource + "." + name
}

// chainFolders returns the folders where saved chains are looked for. The first is "", the working directory.
func (c *cli) chainFolders() []string {
	folders := []string{"", app.ChainsFolder("")}
	path, _ := config.Find(c.configPath) // loading reports its faults
	if folder := app.ChainsFolder(path); folder != folders[1] {
		folders = append(folders, folder)
	}
	return folders
}

func newSaveCommand(c *cli) *cobra.Command {
	var params []string
	cmd := &cobra.Command{
		Use:   "save RUN NAME",
		Short: "Save the chain of a run under a name",
		Long: "Write the chain of a run to the folder chains beside the configuration (in the working directory, if there is none).\n" +
			"--param turns a literal among the arguments of a step into a param, with the literal as its default: 0.query=words is\n" +
			"the argument query of step 0, make.labels.0=label is the first label of the step with the id make.",
	}
	nameOf := runNameFlag(cmd, 1, 1, "the id of a run, which onecall runs lists, and a name for the chain")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		list, err := paramsOf(params)
		if err != nil {
			return err
		}
		name, rest := nameOf(args)
		return c.withJournal(cmd.Context(), app.Options{NoSources: true}, func(a *app.App) error {
			return c.saveRun(cmd.Context(), a, name, rest[0], list)
		})
	}
	cmd.Flags().StringArrayVar(&params, "param", nil, "turn a literal into a param, `STEP.PATH=NAME`")
	return cmd
}

func paramsOf(texts []string) ([]chain.Param, error) {
	list := make([]chain.Param, len(texts))
	for i, text := range texts {
		at := strings.LastIndexByte(text, '=')
		if at < 1 {
			return nil, usageErrorf("--param %s: write it as STEP.PATH=NAME", fault.Clip(text, 100))
		}
		list[i] = chain.Param{Path: text[:at], Name: text[at+1:]}
	}
	return list, nil
}

// saveRun writes the chain of a run to a file.
func (c *cli) saveRun(ctx context.Context, a *app.App, run runName, name string, params []chain.Param) error {
	id, err := run.find(ctx, c, a)
	if err != nil {
		return err
	}
	past, err := a.Journal.Read(ctx, id, nil)
	if errors.Is(err, journal.ErrNotFound) {
		return runName{text: id}.notFound()
	}
	if err != nil {
		return err
	}
	if len(past.Chain) == 0 {
		return opErrorf("the chain of run %s is not kept", id)
	}
	text, faults := chain.SaveAs(past.Chain, params)
	for _, f := range faults {
		c.noticef("%s", textfile.Printable(f.Message))
	}
	if len(faults) > 0 {
		return exitError(faults[0].Code.Exit())
	}
	configPath, f := config.Find(c.configPath)
	if f != nil {
		return opError{f}
	}
	path, err := createChain(app.ChainsFolder(configPath), name, chainfile.Suffixes[0], text)
	if err != nil {
		return err
	}
	return c.writeText([]byte(textfile.Printable(path) + "\n"))
}
