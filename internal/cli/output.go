package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"holdfast.dev/holdfast/internal/api"
)

// outputValue is one output value of a component, as the contract has it.
type outputValue struct {
	Value     json.RawMessage `json:"value"`
	Sensitive bool            `json:"sensitive"`
}

// showOutputs prints the outputs of a run's components. Sensitive ones never leave the agent.
func showOutputs(s *screen, components []api.RunComponent) {
	for _, c := range components {
		var outputs map[string]outputValue
		if len(c.Outputs) == 0 || json.Unmarshal(c.Outputs, &outputs) != nil || len(outputs) == 0 {
			continue
		}
		heading := "Outputs:"
		if len(components) > 1 {
			heading = "Outputs of " + c.Name + ":"
		}
		s.print("%s\n", s.bold(heading))
		wide := 0
		for name := range outputs {
			wide = max(wide, min(len(name), 40))
		}
		for _, name := range slices.Sorted(maps.Keys(outputs)) {
			s.print("  %s = %s\n", fmt.Sprintf("%-*s", wide, name), outputs[name].text(s))
		}
	}
}

func (o outputValue) text(s *screen) styled {
	if o.Sensitive {
		return s.dim("(sensitive)")
	}
	var b bytes.Buffer
	if json.Indent(&b, o.Value, "  ", "  ") != nil {
		return s.dim("(unreadable)")
	}
	return lines(string(visible(b.Bytes())))
}
