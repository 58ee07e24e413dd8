package steps

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/onecall-mcp/onecall/fault"
)

// Credential is what one caller brings for a source that is called as its caller, such as headers of the caller's own request.
type Credential struct {
	Name   string // of the source, or of the function of an HTTP endpoint
	Digest string // identifies the caller and what it brought, and reveals neither
	// Headers returns the headers that a call carries, by name. An error is a coded fault, and nothing was sent then.
	Headers func(ctx context.Context) (map[string]string, error)
	// Refused tells that the service has refused headers, and reports whether Headers now has others. nil: it never has.
	Refused func(headers map[string]string) bool
	// Scrubber removes the secrets of the headers from results and errors; nil: there are none.
	Scrubber Scrubber
	// Kept: the credential is there without the request, so that runs in the background and workers have it, too.
	Kept bool
}

// ErrCredential is wrapped by faults about a caller's own credential, which the caller reads whatever its rights: it alone can mend it.
var ErrCredential = errors.New("credential")

// ID identifies the credential among those of all callers.
func (c *Credential) ID() string { return c.Name + "=" + c.Digest }

// Credentials hold what callers bring.
type Credentials interface {
	// Find returns a credential by its name and digest; nil: no caller has brought it lately. The credential may have another digest, if what
	// the request brings only says where it is.
	Find(name, digest string) *Credential
	// Refresh brings up to date what Find returns for these IDs, which may know nothing before. It may wait for that, and is not called with
	// locks held.
	Refresh(ids string)
	// Missing says, as denied, what a caller without the credential can do; nil: there is no credential of this name.
	Missing(name string) *fault.Error
}

// Personal is a source that has other functions for each credential.
type Personal interface {
	Live
	// As returns the source as a credential reaches it. It opens at the first use, and closes when it was not used for a while. It does not
	// wait, and does not call the function of Watch.
	As(c *Credential) PersonalView
}

// PersonalView is a personal source as one credential reaches it.
type PersonalView interface {
	Functions() []Function
	Status() Status
	// Changes returns another number after each change of Functions or Status.
	Changes() uint64
}

type credentialKey struct{}

// CredentialOf returns the credential that a call carries; nil: that of the configuration.
func CredentialOf(ctx context.Context) *Credential {
	c, _ := ctx.Value(credentialKey{}).(*Credential)
	return c
}

// Carry returns a call that carries the credential, and whose results and errors have none of its secrets.
func (c *Credential) Carry(call Call) Call {
	return scrubCall(c.Scrubber, func(ctx context.Context, args []byte) ([]byte, error) {
		return call(context.WithValue(ctx, credentialKey{}, c), args)
	})
}

// HasCredentials reports whether ids, as Rights.Credentials has them, include each of those in others.
func HasCredentials(ids, others string) bool {
	for other := range strings.FieldsSeq(others) {
		if !hasCredential(ids, other) {
			return false
		}
	}
	return true
}

func hasCredential(ids, id string) bool {
	for one := range strings.FieldsSeq(ids) {
		if one == id {
			return true
		}
	}
	return false
}

// Credentials returns the IDs of those that calls carry for a caller whose request brings ids, as Rights.Credentials has them.
func (c *Catalog) Credentials(ids string) string {
	if ids == "" || c.options.Credentials == nil {
		return ids
	}
	c.options.Credentials.Refresh(ids)
	var found []string
	for id := range strings.FieldsSeq(ids) {
		name, digest, _ := strings.Cut(id, "=")
		if one := c.options.Credentials.Find(name, digest); one != nil {
			found = append(found, one.ID())
		}
	}
	return strings.Join(found, " ")
}

// CredentialsChanged tells that what callers bring may have changed.
func (c *Catalog) CredentialsChanged() { c.announce() }

// credential returns the credential with this name among ids, as Rights.Credentials has them; nil: there is none.
func (c *Catalog) credential(ids, name string) *Credential {
	if ids == "" || name == "" || c.options.Credentials == nil {
		return nil
	}
	for id := range strings.FieldsSeq(ids) {
		if digest, ok := strings.CutPrefix(id, name+"="); ok {
			return c.options.Credentials.Find(name, digest)
		}
	}
	return nil
}

// missing returns why callers without a credential see no function of a source; nil: they need none.
func (c *Catalog) missing(name string) *fault.Error {
	if c.options.Credentials == nil {
		return nil
	}
	return c.options.Credentials.Missing(name)
}

// personal returns what a member offers to callers with these credentials; nil: it offers all callers the same, or nothing to these.
func (m *member) personal(c *Catalog, ids string) (PersonalView, *Credential) {
	source, ok := m.source.(Personal)
	if !ok {
		return nil, nil
	}
	if found := c.credential(ids, m.name); found != nil {
		return source.As(found), found
	}
	return nil, nil
}

// changes returns a number that is another one after each change of what callers with these credentials see of personal sources.
func (c *Catalog) changes(ids string) (number uint64) {
	if ids == "" {
		return 0
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	mix := func(n uint64) { number = number*0x100000001b3 + n }
	for id := range strings.FieldsSeq(ids) {
		name, digest, _ := strings.Cut(id, "=")
		if c.options.Credentials == nil {
			continue
		}
		if found := c.options.Credentials.Find(name, digest); found != nil {
			mix(1)
			for i := range len(found.Digest) {
				mix(uint64(found.Digest[i]))
			}
		}
	}
	for _, m := range c.members {
		if view, _ := m.personal(c, ids); view != nil {
			mix(view.Changes())
		}
	}
	return number
}

// open returns the functions of a registry that need no credential of a caller.
func (r *Registry) open() *Registry {
	for _, e := range r.entries {
		if e != nil && e.spec.Needs != "" {
			return r.View(func(s *Spec) bool { return s.Needs == "" })
		}
	}
	return r
}

// as returns the functions of a registry for a caller: those that need a credential carry it. If find has none, they are left out, unless
// unbound says that they stay without.
func (r *Registry) as(find func(name string) *Credential, unbound bool) *Registry {
	c := r.View(func(s *Spec) bool { return s.Needs == "" || unbound || find(s.Needs) != nil })
	for i, e := range c.entries {
		if e == nil || e.spec.Needs == "" || find(e.spec.Needs) == nil {
			continue
		}
		own, spec := find(e.spec.Needs), *e.spec
		spec.Credential, spec.KeepsCredential = own.ID(), own.Kept
		bound := *e
		bound.compiledFunction = &compiledFunction{spec: &spec, input: e.input, prompt: e.prompt, maxResult: e.maxResult,
			signature: e.signature, results: e.results}
		bound.call = own.Carry(e.call)
		c.entries[i] = &bound
	}
	return c
}

// lockedFunctions returns, as sources of their own, the functions of other sources that callers with these credentials would see with a
// credential for the function alone, such as HTTP endpoints.
func (c *Catalog) lockedFunctions(credentials string, keep func(*Spec) bool) (list []SourceInfo) {
	if c.options.Credentials == nil || c.options.Unbound {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, e := range c.base.All() {
		holder := c.offeredBy[e.spec.Name]
		if e.spec.Needs == "" || holder == nil || holder.name == e.spec.Needs || !keep(e.spec) || c.credential(credentials, e.spec.Needs) != nil {
			continue
		}
		if missing := c.missing(e.spec.Needs); missing != nil {
			list = append(list, SourceInfo{Name: e.spec.Name, Needs: e.spec.Needs, Status: Status{State: StateLocked, Error: missing}})
		}
	}
	return list
}

// lock changes the info of a source for callers without the credential that it needs: it has no functions, and says how to get in.
func (s *SourceInfo) lock(missing *fault.Error) {
	s.Functions = nil
	if hasKnownFunctions(s.State) || s.State == StateLocked {
		s.Status = Status{State: StateLocked, Error: missing, Version: s.Version}
	}
}

// orLocked returns why a chain is left out: that only callers with a credential have the function that it misses, if so, else why.
func (c *Catalog) orLocked(why *fault.Error) *fault.Error {
	missing := new(MissingFunctionError)
	if !errors.As(why, &missing) {
		return why
	}
	original := c.options.Settings.originalName(missing.Name)
	for _, m := range c.members {
		if m.state == StateLocked && (beginsWith(missing.Name, m.name) || beginsWith(original, m.name)) {
			if locked := c.missing(m.name); locked != nil {
				locked.Err = ErrCredential
				return locked
			}
		}
	}
	return why
}

// MissingCredential returns why a function of a provider cannot be called: it needs a credential of its caller, who has brought none;
// nil: it needs none, or has it.
func MissingCredential(p Provider, spec *Spec) *fault.Error {
	s, ok := p.(sourceLister)
	if !ok || spec.Needs == "" || spec.Credential != "" {
		return nil
	}
	return s.missing(spec.Needs)
}

func (v *View) missing(name string) *fault.Error { return v.catalog.missing(name) }

// MayUse returns a function that reports whether the caller may use a function by its rights, whatever credential it has brought. One of a
// source that has others for each credential counts as one that destroys, since nothing else is known of it.
func (v *View) MayUse() func(name string) bool {
	whole, sources := v.catalog.Whole()
	sources = slices.DeleteFunc(sources, func(s SourceInfo) bool { return s.State != StateLocked })
	has := v.narrow(whole)
	return func(name string) bool {
		original := v.settings().Original(name)
		for _, source := range sources {
			if beginsWith(original, source.Name) {
				fn, hidden := v.settings().Apply(Function{Spec: Spec{Name: original, Effect: Destroy, EffectDeclared: true}})
				return !hidden && v.keep(&fn.Spec)
			}
		}
		return has.Has(name)
	}
}

// LockedChain is a saved chain that its caller could use with a credential of its own.
type LockedChain struct {
	Name string       // of the function
	Why  *fault.Error // what to bring
}

// LockedChains returns the saved chains that the caller could use with credentials that it has not brought.
func (v *View) LockedChains() (list []LockedChain) {
	all, has := v.catalog.Registry(), v.Registry()
	whole, _ := v.catalog.Whole()
	if whole == all { // nothing needs a credential, or nobody is asked for one
		return nil
	}
	for _, e := range v.narrow(whole).All() {
		if e.spec.Saved == nil || has.Has(e.spec.Name) {
			continue
		}
		for _, name := range e.spec.Saved.calls {
			called, err := whole.Resolve(name)
			if err != nil || called.spec.Needs == "" || v.catalog.credential(v.credentials, called.spec.Needs) != nil {
				continue
			}
			if why := v.missing(called.spec.Needs); why != nil {
				list = append(list, LockedChain{e.spec.Name, why})
				break
			}
		}
	}
	return list
}

// lockedChain returns why a saved chain is not there for a caller that could use it with a credential of its own; nil: it is no such chain.
func (v *View) lockedChain(name string) *fault.Error {
	folded := FoldName(name)
	for _, chain := range v.LockedChains() {
		if folded == FoldName(chain.Name) || folded == FoldName(strings.TrimPrefix(chain.Name, ChainSource+".")) {
			why := chain.Why.Under("") // a copy
			why.Message = chain.Name + " cannot be called yet: " + why.Message
			return why
		}
	}
	return nil
}
