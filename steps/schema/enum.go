package schema

import (
	"bytes"
	"encoding/json"
	"math"
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/internal/rawjson"
)

// FitValues returns the values of an enum, raw JSON, as the types of their schema mean them: a number under type string is its spelling as
// a text, a text under integer, number or boolean is the value that it spells. ok is false if a value can be none of the types. null
// stays: it says that there may be no value.
func FitValues(types, values []string) (fitted []string, ok bool) {
	allowed := typeSetOf(types)
	fitted = slices.Clone(values)
	for i, raw := range values {
		value := gjson.Parse(raw)
		if fits(allowed, value) {
			continue
		}
		if fitted[i] = fitValue(types, value); fitted[i] == "" {
			return nil, false
		}
	}
	return fitted, true
}

// fitValue returns a scalar as one of the types; "" if it can be none of them.
func fitValue(types []string, value gjson.Result) string {
	isScalar := value.Type == gjson.Number || value.IsBool()
	spelled := gjson.Parse(value.Str)
	whole := value.Type == gjson.String && spelled.Raw == value.Str && json.Valid([]byte(value.Str))
	for _, name := range types {
		switch {
		case name == "string" && isScalar:
			return string(rawjson.AppendQuote(nil, value.Raw))
		case whole && name == "boolean" && spelled.IsBool(), whole && name == "number" && spelled.Type == gjson.Number,
			whole && name == "integer" && spelled.Type == gjson.Number && fits(typeInteger, spelled):
			return spelled.Raw
		}
	}
	return ""
}

// FitEnums returns a compact schema whose enums, and constants, have the types that stand beside them (FitValues), or are left out if that
// is not possible, and what was changed; "": nothing, and the schema is the one given.
func FitEnums(schema []byte) (fitted []byte, changes string) {
	if !bytes.Contains(schema, []byte(`"enum"`)) && !bytes.Contains(schema, []byte(`"const"`)) {
		return schema, ""
	}
	root := gjson.Parse(rawjson.View(schema))
	if !hasMisfit(root) {
		return schema, ""
	}
	f := enumFitter{}
	fitted = f.schema(root, "#")
	return fitted, strings.Join(f.changes[:min(len(f.changes), maxListed)], "; ")
}

// typesAndValues returns the types of a schema, and the raw values of one of its keywords; no types: it does not have both.
func typesAndValues(schema gjson.Result, keyword string) (types, values []string) {
	declared, list := child(schema, "type"), child(schema, keyword)
	for _, name := range declared.Array() {
		if typeSets[name.Str] == noType || name.Type != gjson.String {
			return nil, nil
		}
		types = append(types, name.Str)
	}
	switch {
	case !list.Exists(), keyword == "enum" && !list.IsArray():
		return nil, nil
	case keyword == "const":
		return types, []string{list.Raw}
	}
	for _, value := range list.Array() {
		values = append(values, value.Raw)
	}
	return types, values
}

// hasMisfit reports whether a schema, or one within it, has a value of another type than its own.
func hasMisfit(schema gjson.Result) (misfit bool) {
	var declared gjson.Result
	var values [2]gjson.Result
	schema.ForEach(func(key, value gjson.Result) bool {
		switch {
		case key.Str == "type":
			declared = value
		case key.Str == "enum" && value.IsArray():
			values[0] = value
		case key.Str == "const":
			values[1] = value
		}
		isData := slices.Contains(dataKeywords, key.Str) && !value.IsObject()
		misfit = !isData && (value.IsObject() || value.IsArray()) && hasMisfit(value)
		return !misfit
	})
	allowed := noType
	if schema.IsObject() && (declared.Type == gjson.String || declared.IsArray()) {
		for _, name := range declared.Array() {
			allowed |= typeSets[name.Str]
		}
	}
	if allowed == noType || misfit {
		return misfit
	}
	for _, value := range values[0].Array() {
		misfit = misfit || !fits(allowed, value)
	}
	return misfit || values[1].Exists() && !fits(allowed, values[1])
}

// fits reports whether a value is of an allowed type, or null.
func fits(allowed typeSet, value gjson.Result) bool {
	switch {
	case value.Type == gjson.Null:
		return true
	case value.Type == gjson.Number && allowed&(typeInteger|typeFraction) == typeInteger:
		return value.Num == math.Trunc(value.Num)
	}
	return allowed&typeOf(value) != 0
}

// enumFitter rewrites a schema and records what it changed.
type enumFitter struct{ changes []string }

func (f *enumFitter) schema(schema gjson.Result, at string) []byte {
	if schema.IsArray() {
		var elements [][]byte
		for _, element := range schema.Array() {
			elements = append(elements, f.schema(element, at))
		}
		return append(append([]byte{'['}, bytes.Join(elements, []byte{','})...), ']')
	}
	return mapMembers([]byte(schema.Raw), func(key string, value gjson.Result) string {
		types, values := []string(nil), []string(nil)
		if key == "enum" || key == "const" {
			types, values = typesAndValues(schema, key)
		}
		if len(types) > 0 {
			return f.values(types, values, key, at+"/"+key)
		}
		if !value.IsObject() && !value.IsArray() || slices.Contains(dataKeywords, key) && !value.IsObject() {
			return value.Raw
		}
		return string(f.schema(value, at+"/"+shorten(key)))
	})
}

// values returns the new value of an enum or a constant; "": it is left out.
func (f *enumFitter) values(types, values []string, key, at string) string {
	fitted, ok := FitValues(types, values)
	of := strings.Join(types, " or ")
	switch {
	case !ok:
		f.changes = append(f.changes, at+" is left open: its values are not of type "+of)
		return ""
	case !slices.Equal(fitted, values):
		f.changes = append(f.changes, at+": its values are taken as type "+of)
	}
	if key == "const" {
		return fitted[0]
	}
	return "[" + strings.Join(fitted, ",") + "]"
}
