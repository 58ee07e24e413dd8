package plan

import (
	"errors"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/go-playground/validator/v10"

	"github.com/onecall-mcp/onecall/fault"
)

var identifier = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// tagValidator checks the tags of the request's types. It names fields as JSON does.
var tagValidator = sync.OnceValue(func() *validator.Validate {
	v := validator.New(validator.WithRequiredStructEnabled())
	v.RegisterTagNameFunc(func(f reflect.StructField) string {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		return name
	})
	register := func(tag string, ok func(text, param string) bool) {
		err := v.RegisterValidation(tag, func(f validator.FieldLevel) bool { return ok(f.Field().String(), f.Param()) })
		if err != nil {
			panic(err) // the name of the tag is invalid
		}
	}
	register("identifier", func(id, _ string) bool { return identifier.MatchString(id) })
	register("unreserved", func(id, names string) bool { return !slices.Contains(strings.Fields(names), id) })
	return v
})

// checkTags checks a decoded value by the tags of its type. Values that already have a fault are skipped.
func (d *decoder) checkTags(decoded any, at string) {
	var fields validator.ValidationErrors
	if !errors.As(tagValidator().Struct(decoded), &fields) {
		return
	}
	for _, field := range fields {
		f := fault.New(fault.BadRequest, "%s", tagMessage(field)).Under(at + pointerOf(field.Namespace()))
		if d.Faults.Within(f.At) {
			continue
		}
		if field.Tag() == "oneof" {
			f.Available = strings.Fields(field.Param())
			if text, ok := field.Value().(string); ok {
				f.Nearest = fault.Nearest(text, f.Available, 1)
			}
		}
		d.Faults.Add(f)
	}
}

var namespaceToPointer = strings.NewReplacer(".", "/", "[", "/", "]", "")

// pointerOf turns the validator's `step.retry.max` into `/retry/max`.
func pointerOf(namespace string) string {
	_, path, _ := strings.Cut(namespace, ".")
	return "/" + namespaceToPointer.Replace(path)
}

func tagMessage(field validator.FieldError) string {
	isText := field.Kind() == reflect.String
	switch field.Tag() {
	case "required":
		return field.Field() + " is missing"
	case "oneof":
		return "must be one of " + strings.Join(strings.Fields(field.Param()), ", ")
	case "identifier":
		return "an id is a letter or _, then letters, digits and _"
	case "unreserved":
		return "this name is reserved for references: choose another id"
	case "min":
		if isText {
			return "must not be empty: leave it out"
		}
		return "must be at least " + field.Param()
	case "max":
		if isText {
			return "must have at most " + field.Param() + " characters"
		}
		return "must be at most " + field.Param()
	}
	return "does not pass " + field.Tag()
}
