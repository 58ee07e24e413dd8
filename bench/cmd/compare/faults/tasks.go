package faults

import (
	"fmt"
	"slices"
	"strings"
)

// task is a piece of work: calls in order, of which later ones take values from earlier ones. Each arm writes it in its own way.
type task struct {
	name  string
	steps []step
}

// step is a call, or one for each of a number of items.
type step struct {
	tool  string
	args  []arg
	items int // how many items it is made for; 0: once
}

// arg is an argument: a literal, or the id of an earlier step.
type arg struct {
	name    string
	literal string
	from    int // the earlier step, from 1; 0: the literal holds
}

func lit(name, literal string) arg { return arg{name: name, literal: literal} }

// idOf is the id that an earlier step, counted from 0, has answered.
func idOf(name string, step int) arg { return arg{name: name, from: step + 1} }

// tasks are those that a trial is drawn from.
var tasks = []task{
	{"an order", []step{
		{tool: "customer_get", args: []arg{lit("of", "ada")}}, {tool: "stock_get", args: []arg{lit("of", "lamp")}},
		{tool: "order_create", args: []arg{idOf("customer", 0), idOf("item", 1)}}, {tool: "order_confirm", args: []arg{idOf("order", 2)}},
		{tool: "invoice_send", args: []arg{idOf("order", 2)}}, {tool: "mail_send", args: []arg{lit("to", "ada"), idOf("about", 4)}}}},
	{"a ticket", []step{
		{tool: "customer_get", args: []arg{lit("of", "grace")}}, {tool: "ticket_open", args: []arg{idOf("customer", 0)}},
		{tool: "mail_send", args: []arg{lit("to", "grace"), idOf("about", 1)}}}},
	{"a transfer", []step{
		{tool: "account_get", args: []arg{lit("of", "rent")}}, {tool: "account_get", args: []arg{lit("of", "savings")}},
		{tool: "account_transfer", args: []arg{idOf("source", 1), idOf("to", 0), lit("amount", "900")}},
		{tool: "mail_send", args: []arg{lit("to", "landlord"), idOf("about", 2)}}}},
	{"three transfers", []step{
		{tool: "account_get", args: []arg{lit("of", "firm")}},
		{tool: "account_transfer", args: []arg{idOf("source", 0), lit("amount", "10")}, items: 3},
		{tool: "ticket_open", args: []arg{lit("title", "paid")}}}},
	{"a host", []step{
		{tool: "host_create", args: []arg{lit("name", "web")}}, {tool: "disk_attach", args: []arg{idOf("host", 0), lit("gb", "20")}},
		{tool: "dns_set", args: []arg{lit("name", "web"), idOf("host", 0)}}, {tool: "ticket_open", args: []arg{idOf("host", 0)}}}},
	{"a rack", []step{
		{tool: "hosts_list", args: []arg{lit("of", "rack")}}, {tool: "host_create", args: []arg{lit("name", "db"), idOf("near", 0)}},
		{tool: "disk_attach", args: []arg{idOf("host", 1)}, items: 4}, {tool: "dns_set", args: []arg{idOf("host", 1)}},
		{tool: "host_create", args: []arg{lit("name", "spare")}}, {tool: "disk_attach", args: []arg{idOf("host", 4)}},
		{tool: "mail_send", args: []arg{lit("to", "ops"), idOf("about", 4)}}}},
	{"a bulk update", []step{
		{tool: "hosts_list", args: []arg{lit("of", "rows")}}, {tool: "row_update", args: []arg{lit("value", "7")}, items: 16},
		{tool: "mail_send", args: []arg{lit("to", "ops")}}}},
	{"letters", []step{
		{tool: "customer_get", args: []arg{lit("of", "all")}}, {tool: "mail_send", args: []arg{idOf("list", 0)}, items: 8}}},
	{"an incident", []step{
		{tool: "hosts_list", args: []arg{lit("of", "down")}}, {tool: "ticket_open", args: []arg{idOf("about", 0)}},
		{tool: "ticket_note", args: []arg{idOf("ticket", 1), lit("text", "seen")}}, {tool: "host_create", args: []arg{lit("name", "new")}},
		{tool: "dns_set", args: []arg{idOf("host", 3)}}, {tool: "ticket_note", args: []arg{idOf("ticket", 1), idOf("host", 3)}},
		{tool: "mail_send", args: []arg{lit("to", "all"), idOf("about", 1)}}}},
	{"a move", []step{
		{tool: "account_get", args: []arg{lit("of", "old")}}, {tool: "ticket_open", args: []arg{idOf("about", 0)}},
		{tool: "host_create", args: []arg{lit("name", "a")}}, {tool: "host_create", args: []arg{lit("name", "b")}},
		{tool: "disk_attach", args: []arg{idOf("host", 2)}}, {tool: "disk_attach", args: []arg{idOf("host", 3)}},
		{tool: "row_update", args: []arg{idOf("host", 2)}, items: 5}, {tool: "dns_set", args: []arg{idOf("host", 3)}},
		{tool: "order_create", args: []arg{idOf("host", 2)}}, {tool: "order_confirm", args: []arg{idOf("order", 8)}},
		{tool: "invoice_send", args: []arg{idOf("order", 8)}}, {tool: "ticket_note", args: []arg{idOf("ticket", 1)}},
		{tool: "mail_send", args: []arg{lit("to", "all"), idOf("about", 10)}}}},
}

// calls returns the number of calls of a task.
func (t *task) calls() (n int) {
	for i := range t.steps {
		n += max(1, t.steps[i].items)
	}
	return n
}

// staged reports whether a write takes its arguments from another, so that it is approved after that one.
func (t *task) staged() bool {
	return slices.ContainsFunc(t.steps, func(s step) bool {
		return s.writes() && slices.ContainsFunc(s.args, func(a arg) bool { return a.from > 0 && t.steps[a.from-1].writes() })
	})
}

func (s *step) writes() bool { return toolByName(s.tool).writes }

func idempotent(name string) bool { return toolByName(name).idempotent }

func toolByName(name string) tool {
	i := slices.IndexFunc(tools, func(t tool) bool { return t.name == name })
	if i < 0 {
		panic("no tool " + name)
	}
	return tools[i]
}

// ref is what the log knows a write of a trial by: its step, and its item, from 0.
func (t *trial) ref(step, item int) string {
	if t.task.steps[step].items == 0 {
		return fmt.Sprintf("%s.%d", t.name, step)
	}
	return fmt.Sprintf("%s.%d.%d", t.name, step, item)
}

// refs returns those of all writes of a trial.
func (t *trial) refs() (all []string) {
	for i := range t.task.steps {
		for item := range max(1, t.task.steps[i].items) {
			if t.task.steps[i].writes() {
				all = append(all, t.ref(i, item))
			}
		}
	}
	return all
}

// chain returns the task as a chain of onecall, with short steps.
func (t *trial) chain() string {
	var steps []string
	for i, s := range t.task.steps {
		args := []string{}
		for _, a := range s.args {
			value := a.literal
			if a.from > 0 {
				value = fmt.Sprintf("$%d.id", a.from-1)
			}
			args = append(args, fmt.Sprintf("%q:%q", a.name, value))
		}
		each := ""
		switch {
		case s.items > 0:
			var refs []string
			for item := range s.items {
				refs = append(refs, fmt.Sprintf("'%s'", t.ref(i, item)))
			}
			args, each = append(args, `"ref":"$item"`), `,"forEach":"[`+strings.Join(refs, ",")+`]"`
		case s.writes():
			args = append(args, fmt.Sprintf(`"ref":%q`, t.ref(i, 0)))
		}
		steps = append(steps, fmt.Sprintf(`{"shop.%s":{%s}%s}`, s.tool, strings.Join(args, ","), each))
	}
	return strings.Join(steps, ",")
}
