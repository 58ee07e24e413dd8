package files

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"strconv"

	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/internal/rawjson"
)

// defaultPage is how many entries, files or matches one result shows if the call has no limit; maxPage is the highest limit.
const defaultPage, maxPage = 1000, 100_000

// integer is an integer in any JSON spelling: for a schema 5, 5.0 and 5e0 are equal.
type integer int

// UnmarshalJSON implements json.Unmarshaler.
func (n *integer) UnmarshalJSON(b []byte) error {
	if i, err := strconv.Atoi(string(b)); err == nil {
		*n = integer(i)
		return nil
	}
	f, err := strconv.ParseFloat(string(b), 64)
	if err != nil || f != math.Trunc(f) || math.Abs(f) > 1<<53 {
		return errors.New("not a whole number")
	}
	*n = integer(f)
	return nil
}

func decode(args []byte, into any) error {
	if err := json.Unmarshal(args, into); err != nil {
		f := fault.New(fault.BadArguments, "the arguments do not fit the function's input schema")
		f.Err = err
		return f
	}
	return nil
}

// encode encodes a result as compact JSON. Each invalid UTF-8 byte becomes U+FFFD.
func encode(result any) ([]byte, error) {
	encoded, err := rawjson.Marshal(result)
	if err != nil {
		f := fault.New(fault.Internal, "the result could not be written as JSON")
		f.Err = err
		return nil, f
	}
	return encoded, nil
}

func badArgument(name, format string, args ...any) *fault.Error {
	f := fault.New(fault.BadArguments, format, args...)
	f.At = fault.Key("", name)
	return f
}

// checkPage rejects values that the schemas reject, for callers that do not validate.
func checkPage(limit, offset integer) error {
	if limit < 1 || limit > maxPage {
		return badArgument("limit", "limit is 1 to %d", maxPage)
	}
	if offset < 0 {
		return badArgument("offset", "offset is 0 or more")
	}
	return nil
}

// contextFault returns the coded error for err, the error of a context that is done: timeout if its deadline passed, else cancelled.
func contextFault(err error) *fault.Error {
	f := fault.New(fault.Cancelled, "the call was cancelled")
	if errors.Is(err, context.DeadlineExceeded) {
		f = fault.New(fault.Timeout, "the time limit passed while files were read; narrow path")
	}
	f.Err = err
	return f
}
