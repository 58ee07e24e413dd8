package sqljournal

import (
	"cmp"
	"context"
	"slices"

	"github.com/onecall-mcp/onecall/chain/journal"
)

// sumDays sums up the days of writes that were not refused. The order is the same in all processes, so that they cannot deadlock.
func sumDays(byWrite map[int][]journal.Day, refused []bool) []*journal.Day {
	type key struct{ day, caller, chain, function string }
	sums := map[key]*journal.Day{}
	for i, days := range byWrite {
		if refused[i] {
			continue
		}
		for j := range days {
			d := &days[j]
			k := key{validText(d.Day), validText(d.Caller), validText(d.Chain), validText(d.Function)}
			if sums[k] == nil {
				sums[k] = &journal.Day{Day: k.day, Caller: k.caller, Chain: k.chain, Function: k.function}
			}
			sums[k].Add(d)
		}
	}
	list := make([]*journal.Day, 0, len(sums))
	for _, d := range sums {
		list = append(list, d)
	}
	slices.SortFunc(list, func(a, b *journal.Day) int {
		return cmp.Or(cmp.Compare(a.Day, b.Day), cmp.Compare(a.Caller, b.Caller), cmp.Compare(a.Chain, b.Chain),
			cmp.Compare(a.Function, b.Function))
	})
	return list
}

const (
	whereDay = ` WHERE day = $1 AND caller = $2 AND chain = $3 AND fn = $4`
	newDay   = `INSERT INTO onecall_days (day, caller, chain, fn, counted, failures, calls, tokens, kept, times, sizes)
	VALUES ($1, $2, $3, $4, 0, 0, 0, 0, 0, '', '') ON CONFLICT DO NOTHING`
	addDay = `UPDATE onecall_days SET counted = counted + $5, failures = failures + $6, calls = calls + $7, tokens = tokens + $8,
	kept = kept + $9, times = $10, sizes = $11` + whereDay
)

// addDays adds sums to those in the database, and commits.
func addDays(ctx context.Context, tx transaction, days []*journal.Day) error {
	rows := make([]statement, 0, len(days))
	for _, d := range days {
		rows = append(rows, statement{newDay, []any{d.Day, d.Caller, d.Chain, d.Function}})
	}
	if _, err := tx.exec(ctx, rows, false); err != nil {
		return err
	}
	updates := make([]statement, 0, len(days))
	for i, d := range days {
		known, err := tx.query(ctx, statement{`SELECT times, sizes FROM onecall_days` + whereDay + ` FOR UPDATE`, rows[i].args})
		if err != nil {
			return err
		}
		times, _ := known[0].([]byte)
		sizes, _ := known[1].([]byte)
		sum := &journal.Day{}
		if sum.Times, err = decodeTimes(times); err != nil {
			return err
		}
		if sum.Sizes, err = decodeSizes(sizes); err != nil {
			return err
		}
		sum.Add(&journal.Day{Times: d.Times, Sizes: d.Sizes})
		args := slices.Concat(rows[i].args, []any{d.Count, d.Failures, d.Calls, d.Tokens, d.Stored, encodeTimes(sum.Times),
			encodeSizes(sum.Sizes)})
		updates = append(updates, statement{addDay, args})
	}
	_, err := tx.exec(ctx, updates, true)
	return err
}
