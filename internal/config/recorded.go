package config

import (
	"encoding/json"
	"fmt"
	"reflect"
	"time"
)

// Recorded returns the given settings that the answers of chains depend on, as the text of a configuration in JSON; nil: none are given.
// They are the fields with the tag recorded.
func (c *Config) Recorded() []byte {
	settings := map[string]any{}
	eachRecorded(reflect.ValueOf(c).Elem(), func(key string, field reflect.Value) {
		if value := plainValue(field); value != nil {
			settings[key] = value
		}
	})
	if len(settings) == 0 {
		return nil
	}
	text, _ := json.Marshal(settings) // plain values never fail
	return text
}

// FillRecorded sets the settings of Recorded that c does not give to those of another configuration.
func (c *Config) FillRecorded(from *Config) {
	other := reflect.ValueOf(from).Elem()
	eachRecorded(reflect.ValueOf(c).Elem(), func(key string, field reflect.Value) {
		fillValue(field, other.Field(tables[other.Type()].byKey[key]))
	})
}

// eachRecorded calls f for each field of a configuration that recordings have, with its key.
func eachRecorded(c reflect.Value, f func(key string, field reflect.Value)) {
	for i := range c.NumField() {
		if tag := c.Type().Field(i).Tag; tag.Get("recorded") == "yes" {
			f(tag.Get("yaml"), c.Field(i))
		}
	}
}

// plainValue returns a field as encoding/json writes it in the form that a configuration has; nil: it is not given.
func plainValue(v reflect.Value) any {
	switch {
	case v.Kind() == reflect.Struct:
		object := map[string]any{}
		for i := range v.NumField() {
			tag := v.Type().Field(i).Tag
			if value := plainValue(v.Field(i)); value != nil && tag.Get("recorded") != "no" {
				object[tag.Get("yaml")] = value
			}
		}
		if len(object) == 0 {
			return nil
		}
		return object
	case v.IsNil():
		return nil
	}
	if duration, ok := v.Interface().(*time.Duration); ok {
		return fmt.Sprint(*duration)
	}
	return v.Interface()
}

// fillValue sets what a field lacks to that of another field of its type.
func fillValue(field, from reflect.Value) {
	if field.Kind() == reflect.Struct {
		for i := range field.NumField() {
			if field.Type().Field(i).Tag.Get("recorded") != "no" {
				fillValue(field.Field(i), from.Field(i))
			}
		}
		return
	}
	if field.IsNil() {
		field.Set(from)
	}
}
