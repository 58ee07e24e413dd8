package cli

import (
	"context"
	"encoding/json"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/app"
	"github.com/onecall-mcp/onecall/internal/chainfile"
	"github.com/onecall-mcp/onecall/internal/clients"
	"github.com/onecall-mcp/onecall/internal/config"
	"github.com/onecall-mcp/onecall/internal/signing"
	"github.com/onecall-mcp/onecall/internal/textfile"
	"github.com/onecall-mcp/onecall/steps"
)

func newSignCommand(c *cli) *cobra.Command {
	var keyFile string
	cmd := &cobra.Command{
		Use:   "sign NAME",
		Short: "Sign a saved chain, as a plan for callers of low trust",
		Long: "Check a saved chain as check does, sign it and each saved chain that it calls, and write the signature beside it, as\n" +
			"NAME.chain.sig. Callers with plans: true may call it once its key is in access.plans; stderr shows the key's entry. The\n" +
			"chain must write the full name of each function. Whoever changes what the chain does must sign it again.",
		Args: requireArg("a saved chain: its name, or its file"),
		RunE: func(cmd *cobra.Command, args []string) error { return c.sign(cmd.Context(), args, keyFile) },
	}
	cmd.Flags().StringVar(&keyFile, "key", "", "`file` of the private key, Ed25519 as PKCS #8 in PEM: openssl genpkey -algorithm ed25519 makes one")
	return cmd
}

func (c *cli) sign(ctx context.Context, args []string, keyFile string) (err error) {
	if len(args) > 1 {
		return usageErrorf("sign takes one chain: each signature is a decision of its own")
	}
	files, err := c.planFiles(args)
	if err != nil {
		return err
	}
	if keyFile == "" {
		return usageErrorf("name the private key: --key FILE. openssl genpkey -algorithm ed25519 -out FILE makes one")
	}
	text, err := textfile.Read(keyFile, signing.MaxBytes)
	if err != nil {
		return opErrorf("%s cannot be read: %v", textfile.Printable(keyFile), textfile.Cause(err))
	}
	signer, f := signing.ParseSigner(text)
	if f != nil {
		return opErrorf("%s: %s", textfile.Printable(keyFile), f.Message)
	}
	a, err := c.open(ctx, app.Options{Calls: true, Unverified: true})
	if err != nil {
		return err
	}
	defer closeInto(a, &err)
	plan := files[0]
	saved, err := c.checkPlan(ctx, a, &plan)
	if err != nil {
		return err
	}
	form, f := chain.SignedForm(plan.function, saved)
	if f != nil {
		return opError{f}
	}
	signature, err := signer.Sign(form)
	if err != nil {
		return err
	}
	path := app.SignatureFile(plan.Path)
	if err := clients.WriteFile(path, signature, 0o644); err != nil {
		return opErrorf("%s cannot be written: %v", textfile.Printable(path), textfile.Cause(err))
	}
	c.noticef("signed by the key %s. Servers accept it with this in their configuration:\n\naccess: {plans: [%s]}\n", signer.Key.ID, signer.Key.Text)
	return c.writeText([]byte(textfile.Printable(path) + "\n"))
}

// planFile is the file of a saved chain.
type planFile struct {
	chainfile.File
	function string // its name as a function
}

// planFiles finds the files of saved chains.
func (c *cli) planFiles(args []string) ([]planFile, error) {
	files, err := chainfile.Find(args, c.chainFolders())
	if err != nil {
		return nil, exitErrorOfFiles(err)
	}
	plans := make([]planFile, len(files))
	for i, file := range files {
		name := chainfile.NameOf(file.Path)
		if name == "" {
			return nil, opErrorf("%s is no saved chain: its name must end with %s", textfile.Printable(file.Name), chainfile.Suffixes[0])
		}
		plans[i] = planFile{file, steps.ChainSource + "." + name}
	}
	return plans, nil
}

// checkPlan checks a chain, and that it and those that it calls name all functions by their full names. It returns the chains as they were
// checked: the file of each is read once.
func (c *cli) checkPlan(ctx context.Context, a *app.App, plan *planFile) (saved func(name string) *steps.SavedChain, err error) {
	e, err := plan.Read(ctx, c.in, a.MaxRequestBytes)
	if err != nil {
		return nil, exitErrorOfFiles(err)
	}
	lite := false
	caller := &chain.Caller{Override: chain.Override{Check: true, Lite: &lite}}
	line := c.startProgress()
	e.Answer = answerEntry(ctx, a, e, caller)
	line.stop()
	if c.showCheckResult(e); !e.Answer.OK {
		return nil, exitErrorOf(e.Answer)
	}
	root, faults := a.ParseChain(chainfile.NameOf(plan.Path), e.Request)
	if len(faults) > 0 {
		return nil, opErrorf("%s is not valid as a saved chain: %s", textfile.Printable(plan.Path), faults[0].Message)
	}
	beside := a.ChainsBeside(plan.Path)
	saved = func(name string) *steps.SavedChain {
		if name == plan.function {
			return root.Saved
		}
		return beside(name)
	}
	return saved, c.checkNames(a.Catalog.Registry(), plan.function, saved, map[string]bool{})
}

func (c *cli) checkNames(functions *steps.Registry, name string, saved func(string) *steps.SavedChain, checked map[string]bool) error {
	plan := saved(name)
	if plan == nil || checked[name] {
		return nil
	}
	checked[name] = true
	for _, called := range slices.Concat(plan.Names, plan.Undoes) {
		if functions.Has(called) {
			if err := c.checkNames(functions, called, saved, checked); err != nil {
				return err
			}
			continue
		}
		entry, err := functions.Resolve(called)
		if err != nil {
			return opError{err}
		}
		return opErrorf("%s names the function %s, and a signed chain must write its full name, since another could get the short one: write %s",
			name, called, entry.Spec().Name)
	}
	return nil
}

// verified is the answer of verify for one chain.
type verified struct {
	Chain string       `json:"chain"`
	OK    bool         `json:"ok"`
	Key   string       `json:"key,omitempty"`
	Error *verifyError `json:"error,omitempty"`
}

type verifyError struct {
	Code    fault.Code `json:"code"`
	Message string     `json:"message"`
}

func newVerifyCommand(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "verify NAME...",
		Short: "Verify the signatures of saved chains",
		Long: "Verify that a key of access.plans has signed the saved chains as they are now, with all that they call. It starts no\n" +
			"source and needs no network. The exit status is 0 if all are signed.",
		Args: requireArg("a saved chain: its name, or its file"),
		RunE: func(_ *cobra.Command, args []string) error { return c.verify(args) },
	}
	cmd.Flags().BoolVar(&c.asJSON, "json", false, "answer JSON, one line for each chain, at a terminal too")
	return cmd
}

func (c *cli) verify(args []string) error {
	plans, err := c.planFiles(args)
	if err != nil {
		return err
	}
	file, faults := config.Load(c.configPath)
	if len(faults) > 0 {
		return &config.Error{File: file.Path, Faults: faults}
	}
	keys, faults := app.PlanKeys(&file.Access)
	for i, f := range faults {
		faults[i] = file.FaultAt("/access", f)
	}
	if len(faults) > 0 {
		return &config.Error{File: file.Path, Faults: faults}
	}
	if len(keys) == 0 {
		return opErrorf("access.plans has no key, so no signature is accepted: onecall sign shows the entry of a key")
	}
	out, err := c.newOutput("")
	if err != nil {
		return err
	}
	var first error
	for _, plan := range plans {
		v := c.verifyPlan(&plan, file, keys)
		if first == nil && !v.OK {
			first = exitError(exitFailed)
		}
		if err := c.writeVerified(out, &v); err != nil {
			return err
		}
	}
	if err := out.commit(); err != nil {
		return exitErrorOfFiles(err)
	}
	return first
}

func (c *cli) verifyPlan(plan *planFile, file *config.File, keys []*signing.Key) verified {
	v := verified{Chain: plan.function}
	path := app.SignatureFile(plan.Path)
	key, f := app.VerifyPlan(plan.function, path, app.ChainsIn(filepath.Dir(plan.Path), app.ChainReader(file)), keys)
	switch {
	case f != nil:
		v.Error = &verifyError{f.Code, path + ": " + f.Message}
	case key == nil:
		v.Error = &verifyError{fault.Denied, "it has no signature: onecall sign " + chainfile.NameOf(plan.Path) + " --key FILE writes one"}
	default:
		v.OK, v.Key = true, key.ID
	}
	return v
}

func (c *cli) writeVerified(out *output, v *verified) error {
	if !out.forPerson {
		text, err := json.Marshal(v)
		if err != nil {
			return err
		}
		return out.writeLine(text)
	}
	if v.OK {
		out.writeLines(v.Chain + ": " + c.paint(green, "ok") + ": signed by the key " + v.Key + "\n")
		return nil
	}
	out.writeLines(v.Chain + ": " + c.paint(red, "not signed") + ": " + textfile.Printable(v.Error.Message) + "\n")
	return nil
}
