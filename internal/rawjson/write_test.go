package rawjson_test

import (
	"testing"

	"github.com/onecall-mcp/onecall/internal/rawjson"
)

func TestWriter(t *testing.T) {
	t.Parallel()
	w := &rawjson.Writer{}
	w.Open('{')
	w.Text("text", "a\"\xff\n")
	w.Int("int", -1)
	w.Bool("bool", true)
	w.Raw("raw", []byte("null"))
	w.Texts("texts", []string{"", "b"})
	w.Ints("none", nil)
	w.OpenMember("list", '[')
	w.IntArray([]int{1, 2})
	w.IntArray(nil)
	w.Open('{')
	w.Key("key")
	w.B = append(w.B, '3')
	w.Close('}')
	w.Close(']')
	w.Close('}')
	want := `{"text":"a\"` + "\ufffd" + `\n","int":-1,"bool":true,"raw":null,"texts":["","b"],"none":[],"list":[[1,2],[],{"key":3}]}`
	if string(w.B) != want {
		t.Errorf("got  %s\nwant %s", w.B, want)
	}
}
