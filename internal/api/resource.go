package api

import "encoding/json"

// Resource is one resource of a state's current document, by name; its values stay sealed.
type Resource struct {
	State     string `json:"state" doc:"Name of the state."`
	Address   string `json:"address" doc:"Without the index of an instance, such as module.net.aws_subnet.a"`
	Module    string `json:"module" doc:"Address of the module instance; empty for the root."`
	Mode      string `json:"mode" enum:"managed,data"`
	Type      string `json:"type"`
	Name      string `json:"name"`
	Provider  string `json:"provider" doc:"Source address of the provider."`
	Instances int64  `json:"instances"`
}

// StateResources is one page of the resources of one state.
type StateResources struct {
	Items      []Resource `json:"items" nullable:"false"`
	Next       string     `json:"next"`
	Unreadable string     `json:"unreadable" enum:",client_encrypted" doc:"Why nothing can be listed; empty where it can."`
	Truncated  bool       `json:"truncated" doc:"The document has more resources than are listed of one state."`
	Pending    bool       `json:"pending" doc:"The list of this state has not been made yet; it will be within minutes."`
}

// ResourceDetail is one resource of a state's current document, with its values.
type ResourceDetail struct {
	Resource
	Version    int64              `json:"version" doc:"Of the document that was read."`
	Unreadable string             `json:"unreadable" enum:",client_encrypted"`
	Details    []ResourceInstance `json:"details" nullable:"false" doc:"Its instances, as they stand in the document."`
	More       int                `json:"more" doc:"Instances beyond the ones in details."`
}

// ResourceInstance is one instance of a resource.
type ResourceInstance struct {
	Address        string       `json:"address" doc:"With the index."`
	Deposed        string       `json:"deposed,omitempty" doc:"Key of what an unfinished replacement left."`
	Status         string       `json:"status,omitempty" doc:"tainted, or empty."`
	Attributes     []StateValue `json:"attributes" nullable:"false"`
	AttributesMore int          `json:"attributes_more,omitempty" doc:"Attributes beyond the ones listed."`
}

// StateValue is one value of a document. Objects and lists are taken apart.
type StateValue struct {
	Path      string          `json:"path" doc:"Such as tags.Name or ingress[0].port"`
	Value     json.RawMessage `json:"value,omitempty" doc:"Any JSON; left out where the value is sensitive."`
	Sensitive bool            `json:"sensitive,omitempty"`
	Cut       bool            `json:"cut,omitempty" doc:"The value is longer; its beginning is shown, as text."`
}

// StateOutputs is the outputs of a state's current document.
type StateOutputs struct {
	Version    int64         `json:"version" doc:"Of the document that was read; 0 where nothing is stored."`
	Unreadable string        `json:"unreadable" enum:",client_encrypted"`
	Items      []StateOutput `json:"items" nullable:"false" doc:"By name."`
	More       int           `json:"more" doc:"Outputs beyond the ones listed."`
}

// StateOutput is one output of a document.
type StateOutput struct {
	Name      string          `json:"name"`
	Type      json.RawMessage `json:"type,omitempty" doc:"As the tool wrote it: a text such as \"string\", or a list."`
	Value     json.RawMessage `json:"value,omitempty" doc:"Any JSON; left out where it is sensitive."`
	Sensitive bool            `json:"sensitive"`
	Cut       bool            `json:"cut,omitempty" doc:"The value is longer; its beginning is shown, as text."`
}
