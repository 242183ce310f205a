package api

import "encoding/json"

// StateDiff is what differs between two versions of a state, by resource.
type StateDiff struct {
	From           int64            `json:"from" doc:"Number of the version; 0 for nothing, where there is none before the other one."`
	To             int64            `json:"to"`
	SerialFrom     *uint64          `json:"serial_from"`
	SerialTo       *uint64          `json:"serial_to"`
	LineageChanged bool             `json:"lineage_changed"`
	Unreadable     string           `json:"unreadable" enum:",client_encrypted" doc:"Why nothing can be compared; empty where it can."`
	Resources      []ResourceChange `json:"resources" nullable:"false" doc:"Those removed first, then changed, then added; each by address."`
	Outputs        []OutputChange   `json:"outputs" nullable:"false" doc:"By name."`
	Unchanged      int              `json:"unchanged" doc:"Instances that are the same in both."`
	More           int              `json:"more" doc:"Instances and outputs that differ beyond the ones listed."`
}

// ResourceChange is an instance of a resource that differs.
type ResourceChange struct {
	Address        string            `json:"address" doc:"Of the instance, with its index."`
	Type           string            `json:"type"`
	Provider       string            `json:"provider" doc:"Source address."`
	Action         string            `json:"action" enum:"added,removed,changed"`
	Deposed        string            `json:"deposed,omitempty" doc:"Key of what an unfinished replacement left."`
	Attributes     []AttributeChange `json:"attributes" nullable:"false"`
	AttributesMore int               `json:"attributes_more,omitempty" doc:"Attributes that differ beyond the ones listed."`
	About          []AttributeChange `json:"about,omitempty" doc:"What the document says of the instance besides: status (tainted), schema_version, provider."`
}

// AttributeChange is one value that differs. Objects and lists are taken apart.
type AttributeChange struct {
	Path      string          `json:"path" doc:"Such as tags.Name or ingress[0].port"`
	Before    json.RawMessage `json:"before,omitempty" doc:"Any JSON; left out where there was none, and where it is sensitive."`
	After     json.RawMessage `json:"after,omitempty" doc:"Likewise."`
	Sensitive bool            `json:"sensitive,omitempty"`
	Cut       bool            `json:"cut,omitempty" doc:"A value is longer; its beginning is shown, as text."`
}

// OutputChange is an output that differs.
type OutputChange struct {
	Name      string          `json:"name"`
	Action    string          `json:"action" enum:"added,removed,changed"`
	Before    json.RawMessage `json:"before,omitempty" doc:"Any JSON; left out where there was none, and where it is sensitive."`
	After     json.RawMessage `json:"after,omitempty" doc:"Likewise."`
	Sensitive bool            `json:"sensitive"`
	Cut       bool            `json:"cut,omitempty" doc:"A value is longer; its beginning is shown, as text."`
}
