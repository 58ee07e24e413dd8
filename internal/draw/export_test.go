package draw

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
)

// checkXML fails a test if a picture is not well-formed.
func checkXML(t interface{ Fatalf(string, ...any) }, picture []byte) {
	for decoder := xml.NewDecoder(bytes.NewReader(picture)); ; {
		if _, err := decoder.Token(); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatalf("the picture is no XML: %v", err)
		}
	}
}
