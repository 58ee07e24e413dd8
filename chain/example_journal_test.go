package chain_test

import (
	"context"
	"fmt"

	"github.com/tidwall/gjson"

	"github.com/onecall-mcp/onecall/chain"
	"github.com/onecall-mcp/onecall/chain/journal"
	"github.com/onecall-mcp/onecall/fault"
	"github.com/onecall-mcp/onecall/steps"
)

// A failed chain continues where it stopped: its writes are not made again.
func Example_resume() {
	open := false
	functions, err := steps.NewRegistry([]steps.Function{
		{Spec: steps.Spec{Name: "shop.reserve"}, Call: func(_ context.Context, args []byte) ([]byte, error) {
			fmt.Printf("reserved %s\n", args)
			return []byte(`{"number":7}`), nil
		}},
		{Spec: steps.Spec{Name: "shop.pay"}, Call: func(context.Context, []byte) ([]byte, error) {
			if !open {
				return nil, fault.New(fault.FunctionFailed, "the till is closed")
			}
			return []byte(`"paid"`), nil
		}},
	}, nil)
	if err != nil {
		panic(err)
	}
	runs, err := journal.New(&journal.Memory{}, nil) // or sqljournal.OpenSQLite in place of Memory
	if err != nil {
		panic(err)
	}
	defer runs.Close()
	engine, err := chain.New(&chain.Options{Functions: functions, Journal: runs})
	if err != nil {
		panic(err)
	}
	failed := engine.Run(context.Background(), []byte(`{"steps":[
		{"fn":"shop.reserve","args":{"item":"tea"}},
		{"fn":"shop.pay","args":{"order":"$0.number"}}]}`), nil)
	fmt.Println(failed.Error.Message)
	open = true
	request := fmt.Sprintf(`{"resume":%q,"lite":true}`, gjson.GetBytes(failed.JSON, "resume").Str)
	fmt.Println(string(engine.Run(context.Background(), []byte(request), nil).JSON))
	// Output:
	// reserved {"item":"tea"}
	// the till is closed
	// "paid"
}
