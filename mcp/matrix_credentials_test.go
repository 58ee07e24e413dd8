package mcp_test

import (
	"strings"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

// withCredential returns a caller whose request brings the credential of personalSource with which it has the functions of a resource.
func withCredential(a steps.Caller, resource string) steps.Caller {
	a.Rights.Credentials = (&steps.Credential{Name: personalSource, Digest: resource}).ID()
	return a
}

// matrixCredentials are those of the matrix: the digest is the resource that a credential opens.
type matrixCredentials struct{}

func (matrixCredentials) Find(name, digest string) *steps.Credential {
	return &steps.Credential{Name: name, Digest: digest}
}

func (matrixCredentials) Refresh(string) {}

func (matrixCredentials) Missing(name string) *fault.Error {
	if name != personalSource {
		return nil
	}
	return fault.New(fault.Denied, "it is called with your own credential: send the header X-Tenant")
}

// personalMatrix is a source that has another resource for each credential.
type personalMatrix struct {
	all    []*matrixFunction
	exists func(*steps.Spec) bool
}

func (*personalMatrix) Functions() []steps.Function { return nil }
func (*personalMatrix) Close() error                { return nil }
func (*personalMatrix) Watch(func())                {}
func (*personalMatrix) Status() steps.Status        { return steps.Status{State: steps.StateLocked} }
func (p *personalMatrix) As(c *steps.Credential) steps.PersonalView {
	return personalMatrixView{p, c.Digest}
}

type personalMatrixView struct {
	*personalMatrix
	resource string
}

func (v personalMatrixView) Changes() uint64      { return 1 }
func (v personalMatrixView) Status() steps.Status { return steps.Status{State: steps.StateReady} }
func (v personalMatrixView) Functions() (list []steps.Function) {
	for _, m := range v.all {
		if strings.HasPrefix(m.Spec.Name, personalSource+"."+v.resource+".") && v.exists(&m.Spec) {
			list = append(list, m.Function)
		}
	}
	return list
}
