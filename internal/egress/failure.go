package egress

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/onecall-mcp/onecall/fault"
)

// Failure gives a code to what went wrong with a request, in the client or while its answer was read: the coded error
// inside err, else cancelled, timeout or unavailable. It shows the host and nothing else of the URL. Its Outcome is
// not_sent where no connection could be made for the request, else sent_unknown for one whose method is not safe (RFC
// 9110, section 9.2.1).
func Failure(request *http.Request, err error) *fault.Error {
	if f, ok := fault.As(err); ok {
		return f
	}
	host := Host(request.URL)
	f := &fault.Error{Err: err, Outcome: outcome(request, err)}
	// The cause is asked as well: a transport may notice the deadline a moment before the context does.
	switch ended := cmp.Or(request.Context().Err(), err); {
	case errors.Is(ended, context.Canceled):
		f.Code, f.Message = fault.Cancelled, "the call to "+host+" was cancelled"
	case errors.Is(ended, context.DeadlineExceeded):
		f.Code, f.Message = fault.Timeout, "no complete answer from "+host+" in time"
	default:
		f.Code, f.Message = fault.Unavailable, host+" could not be reached: "+cause(err)
	}
	return f
}

// Safe tells whether requests of this method ask for nothing to be changed (RFC 9110, section 9.2.1).
func Safe(method string) bool {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace, "":
		return true
	}
	return false
}

func outcome(request *http.Request, err error) fault.Outcome {
	var connection *net.OpError
	var dns *net.DNSError
	dialled := errors.As(err, &connection) && connection.Op == "dial" || errors.As(err, &dns)
	switch {
	case dialled && !redirected(request, err):
		return fault.NotSent
	case Safe(request.Method):
		return ""
	}
	return fault.SentUnknown
}

// redirected tells whether an error is that of another request than the first: the first was answered.
func redirected(request *http.Request, err error) bool {
	var with *url.Error
	return errors.As(err, &with) && with.URL != request.URL.String()
}

// cause is what an error says, without the URL that net/http puts before it, and not longer than a line.
func cause(err error) string {
	var with *url.Error
	if errors.As(err, &with) {
		err = with.Err
	}
	return strings.ToValidUTF8(fault.Clip(err.Error(), 200), "\ufffd")
}

// certificateFault is the unavailable of a server that is not trusted, nil for any other error. Nothing was sent.
func certificateFault(host string, err error) *fault.Error {
	var verification *tls.CertificateVerificationError
	var unknown x509.UnknownAuthorityError
	var name x509.HostnameError
	var invalid x509.CertificateInvalidError
	var record tls.RecordHeaderError
	var message string
	switch {
	case errors.As(err, &name):
		message = "it is for other names: call the host by a name that its certificate holds"
	case errors.As(err, &unknown):
		message = "it is signed by an authority that this machine does not know. Where the authority is to be trusted, " +
			"add its certificate to those of the system, or name the file that holds it in SSL_CERT_FILE"
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired && invalid.Cert != nil && time.Now().Before(invalid.Cert.NotBefore):
		message = "it is not valid yet: look at the clock of this machine"
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		message = "it has expired: who runs the server must renew it (or the clock of this machine is wrong)"
	case errors.As(err, &verification):
		message = cause(verification.Err)
	case errors.As(err, &record) && string(record.RecordHeader[:]) == "HTTP/":
		return &fault.Error{Code: fault.Unavailable, Outcome: fault.NotSent, Err: err,
			Message: host + " answers plain HTTP where https was asked for: write http:// if that is meant"}
	default:
		return nil
	}
	return &fault.Error{Code: fault.Unavailable, Outcome: fault.NotSent, Err: err, Message: "the certificate of " + host + " is not accepted: " + message}
}
