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

// Failure converts an error of a request, or of reading its response, to a coded error: the one inside err, if there is one, else
// cancelled, timeout or unavailable. A new error shows only the host of the URL. Its Outcome is not_sent if no connection could be made for
// the request, else sent_unknown for unsafe methods (RFC 9110, section 9.2.1) and "" for safe ones.
func Failure(request *http.Request, err error) *fault.Error {
	if f, ok := fault.As(err); ok {
		return f
	}
	host := Host(request.URL)
	f := &fault.Error{Err: err, Outcome: outcome(request, err)}
	// err is checked as well: a transport may notice the deadline before the context does.
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

// SafeMethod reports whether a method is safe (RFC 9110, section 9.2.1).
func SafeMethod(method string) bool {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace, "":
		return true
	}
	return false
}

// outcome returns what is known about whether a failed request was sent: not_sent, sent_unknown, or "" for a safe method.
func outcome(request *http.Request, err error) fault.Outcome {
	var connection *net.OpError
	var dns *net.DNSError
	dialFailed := errors.As(err, &connection) && connection.Op == "dial" || errors.As(err, &dns)
	switch {
	case dialFailed && !fromRedirect(request, err):
		return fault.NotSent
	case SafeMethod(request.Method):
		return ""
	}
	return fault.SentUnknown
}

// fromRedirect reports whether an error belongs to a request that follows a redirect. The first request was then sent, and answered.
func fromRedirect(request *http.Request, err error) bool {
	var urlErr *url.Error
	return errors.As(err, &urlErr) && urlErr.URL != request.URL.String()
}

// cause returns an error's text on one line, without the URL that net/http adds.
func cause(err error) string {
	var urlErr *url.Error
	if errors.As(err, &urlErr) {
		err = urlErr.Err
	}
	return strings.ToValidUTF8(fault.Clip(err.Error(), 200), "\ufffd")
}

// certificateFault returns the unavailable fault if err means that the server's certificate is not trusted, or that the server does not
// speak TLS; else nil. Nothing was sent then.
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
		message = "it is signed by an authority that this machine does not know. If you trust the authority, " +
			"add its certificate to those of the system, or name the file that holds it in SSL_CERT_FILE"
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired && invalid.Cert != nil && time.Now().Before(invalid.Cert.NotBefore):
		message = "it is not valid yet: check the clock of this machine"
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		message = "it has expired: its operator must renew it (or the clock of this machine is wrong)"
	case errors.As(err, &verification):
		message = cause(verification.Err)
	case errors.As(err, &record) && string(record.RecordHeader[:]) == "HTTP/":
		return &fault.Error{Code: fault.Unavailable, Outcome: fault.NotSent, Err: err,
			Message: host + " answers plain HTTP where https was asked for: write http:// if that is meant"}
	default:
		return nil
	}
	return &fault.Error{Code: fault.Unavailable, Outcome: fault.NotSent, Err: err,
		Message: "the certificate of " + host + " is not accepted: " + message}
}
