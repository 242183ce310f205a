// Package plan reads the JSON of a saved plan and reduces it to a View: what would change, how risky that is, and
// what an approval of it permits. Values that are secret or unknown are marked and left out.
package plan

import "slices"

// Format is the version of View's JSON. It grows when a field changes its meaning.
const Format = 1

// Bounds of a View. What is left out is counted in it, and the counts and the actions digest cover everything.
const (
	MaxChanges    = 5000    // resources that are listed
	MaxAttributes = 200     // attributes of one resource
	MaxValueBytes = 1024    // of one value
	MaxBytes      = 2 << 20 // about, of the attributes; half of it is kept for what destroys
	maxDepth      = 32      // of nested attributes; deeper ones are shown as one value
)

// Class is what happens to one object.
type Class string

// The classes, from the most to the least dangerous; a View lists them in this order.
const (
	Unknown      Class = "unknown"       // actions this version does not know: taken for destructive
	Delete       Class = "delete"        // the object ceases to exist
	Replace      Class = "replace"       // it ceases to exist and a new one is made
	Forget       Class = "forget"        // it goes on existing, managed by nobody
	ForgetCreate Class = "forget_create" // likewise, and a new one is made (OpenTofu, lifecycle.destroy = false)
	Update       Class = "update"        // in place
	Create       Class = "create"
	Import       Class = "import" // taken into the state and not changed
	Move         Class = "move"   // another address and nothing else
	Read         Class = "read"   // a data source that waits for the apply
	Noop         Class = "noop"   // in drift and outputs only
)

var order = [...]Class{Unknown, Delete, Replace, Forget, ForgetCreate, Update, Create, Import, Move, Read, Noop}

func (c Class) rank() int { return slices.Index(order[:], c) }

// destructive classes are high risk and are listed first.
func (c Class) destructive() bool { return c.rank() <= ForgetCreate.rank() }

// Risk of a plan, for the approval rules.
type Risk string

// The risks.
const (
	RiskNone Risk = "none" // nothing changes
	RiskLow  Risk = "low"
	RiskHigh Risk = "high"
)

// Counts of a plan. Each object stands in exactly one of Add, Change, Destroy, Replace, Unknown, or in none of
// them (only forgotten, moved, imported or read); Import and Move also count objects that change besides.
type Counts struct {
	Add     int `json:"add"`     // created where nothing was: classes create and forget_create
	Change  int `json:"change"`  // updated in place
	Destroy int `json:"destroy"` // destroyed and not replaced, leftovers of a replacement (deposed) included
	Replace int `json:"replace"` // destroyed and made again, in either order
	Import  int `json:"import"`  // taken into the state
	Move    int `json:"move"`    // with another address than before
	Forget  int `json:"forget"`  // dropped from the state and left existing: classes forget and forget_create
	Outputs int `json:"outputs"` // output values that change
	Read    int `json:"read"`    // data sources read during the apply
	Unknown int `json:"unknown"` // objects with actions that are not understood
}

// Destroys is the number of objects that cease to exist, or may: what approval rules count. A replacement destroys.
func (c Counts) Destroys() int { return c.Destroy + c.Replace + c.Unknown }

// Operations is the number of create, update and delete steps of the apply, for its progress. A replacement is two.
func (c Counts) Operations() int { return c.Add + c.Change + c.Destroy + 2*c.Replace }

// HasChanges reports whether an apply would do or record anything. Reading data sources alone is nothing: a check
// block makes some plans read for ever.
func (c Counts) HasChanges() bool {
	c.Read = 0
	return c != Counts{}
}

// View is a plan without its secrets. Its JSON is what is stored, sent and shown.
type View struct {
	Format      int    `json:"format"`
	ToolVersion string `json:"tool_version"`
	Digest      string `json:"digest"` // "sha256:…" of the plan file; set by who has the file
	Counts
	Errored       bool           `json:"errored"`        // planning failed: the changes are incomplete
	Incomplete    bool           `json:"incomplete"`     // the tool put changes off to a later plan
	Drifted       int            `json:"drifted"`        // objects that changed outside, also those not listed
	ActionsDigest string         `json:"actions_digest"` // "sha256:…" over every object's address and actions
	Changes       []Change       `json:"changes"`        // the most dangerous first, then by address
	OutputChanges []OutputChange `json:"output_changes"` // by name
	Drift         []Change       `json:"drift"`
	Checks        []Check        `json:"checks"`           // failed ones
	LeftOut       int            `json:"changes_left_out"` // changes beyond MaxChanges
	Truncated     bool           `json:"truncated"`        // something is left out somewhere
}

// Change is what happens to one object.
type Change struct {
	Address           string      `json:"address"`
	PreviousAddress   string      `json:"previous_address,omitempty"`
	Module            string      `json:"module,omitempty"`
	Mode              string      `json:"mode"` // managed or data
	Type              string      `json:"type"`
	Name              string      `json:"name"`
	Provider          string      `json:"provider"` // source address
	Deposed           string      `json:"deposed,omitempty"`
	Actions           []string    `json:"actions"` // as the tool says them
	Class             Class       `json:"class"`
	CreateFirst       bool        `json:"create_first,omitempty"` // of a replacement
	Reason            string      `json:"reason,omitempty"`       // the tool's action_reason
	ReplacePaths      []string    `json:"replace_paths,omitempty"`
	Importing         string      `json:"importing,omitempty"` // id
	Attributes        []Attribute `json:"attributes"`          // those that differ
	AttributesLeftOut int         `json:"attributes_left_out,omitempty"`
}

// Attribute is one value that differs. Objects and lists are taken apart, so a value is a string, a number, a
// boolean, null, or empty.
type Attribute struct {
	Path      string `json:"path"`             // e.g. tags["Name"] or ingress[0].port; empty for an output that is one value
	Before    string `json:"before,omitempty"` // JSON; empty when there was none, or when it is not shown
	After     string `json:"after,omitempty"`  // likewise
	Sensitive bool   `json:"sensitive,omitempty"`
	Unknown   bool   `json:"unknown,omitempty"` // known after the apply
	Cut       bool   `json:"cut,omitempty"`     // a value was longer than MaxValueBytes
}

// OutputChange is what happens to one output value.
type OutputChange struct {
	Name              string      `json:"name"`
	Class             Class       `json:"class"`
	Sensitive         bool        `json:"sensitive,omitempty"`
	Attributes        []Attribute `json:"attributes"`
	AttributesLeftOut int         `json:"attributes_left_out,omitempty"`
}

// Check is a condition that did not hold.
type Check struct {
	Address  string   `json:"address"`
	Status   string   `json:"status"` // fail or error
	Messages []string `json:"messages"`
}

// Applyable reports whether there is something to apply and the plan is whole.
func (v *View) Applyable() bool { return !v.Errored && !v.Incomplete && v.HasChanges() }

// Risk weighs the plan. Destroying is high, and so are an errored or incomplete plan, actions that are not understood
// and forgetting: the object goes on existing and costing, and nothing will ever list it again. Replacing an object of
// a type in routine is not high by itself; a template names those types.
func (v *View) Risk(routine ...string) Risk {
	routinely := 0
	for _, c := range v.Changes {
		if c.Class == Replace && slices.Contains(routine, c.Type) {
			routinely++
		}
	}
	switch {
	case v.Errored, v.Incomplete, v.Destroys()+v.Forget > routinely:
		return RiskHigh
	case v.HasChanges():
		return RiskLow
	}
	return RiskNone
}

// classify names what a list of actions does. moved and imported tell no-ops apart.
func classify(actions []string, moved, imported bool) (class Class, createFirst bool) {
	switch {
	case slices.Equal(actions, []string{"delete", "create"}):
		return Replace, false
	case slices.Equal(actions, []string{"create", "delete"}):
		return Replace, true
	case slices.Equal(actions, []string{"forget", "create"}), slices.Equal(actions, []string{"create", "forget"}):
		return ForgetCreate, false
	case len(actions) != 1:
		return Unknown, false
	}
	switch actions[0] {
	case "create":
		return Create, false
	case "update":
		return Update, false
	case "delete":
		return Delete, false
	case "forget":
		return Forget, false
	case "read":
		return Read, false
	case "no-op":
		switch {
		case imported:
			return Import, false
		case moved:
			return Move, false
		}
		return Noop, false
	}
	return Unknown, false
}

func (c *Counts) add(class Class, moved, imported bool) {
	switch class {
	case Create:
		c.Add++
	case Update:
		c.Change++
	case Delete:
		c.Destroy++
	case Replace:
		c.Replace++
	case Forget:
		c.Forget++
	case ForgetCreate:
		c.Add++
		c.Forget++
	case Read:
		c.Read++
	case Unknown:
		c.Unknown++
	}
	if moved {
		c.Move++
	}
	if imported {
		c.Import++
	}
}
