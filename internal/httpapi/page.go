package httpapi

import (
	"holdfast.dev/holdfast/internal/api"
	"holdfast.dev/holdfast/internal/engine"
)

// Paging is how a list is asked for; inputs of lists embed it. It is exported because huma passes over embedded types
// that are not.
type Paging struct {
	Limit  int    `query:"limit" minimum:"1" maximum:"200" default:"50" doc:"Most items of the answer."`
	Cursor string `query:"cursor" maxLength:"512" doc:"What the page before gave as next."`
}

func (p Paging) page() engine.Page { return engine.Page{Limit: p.Limit, Cursor: p.Cursor} }

// list is the answer of a list.
type list[T any] struct {
	Body api.List[T]
}

// listOf makes the answer of a list from the engine's rows.
func listOf[R, T any](rows []R, next string, err error, show func(R) T) (*list[T], error) {
	if err != nil {
		return nil, err
	}
	out := &list[T]{Body: api.List[T]{Items: make([]T, 0, len(rows)), Next: next}}
	for _, r := range rows {
		out.Body.Items = append(out.Body.Items, show(r))
	}
	return out, nil
}

// one is the answer of one document.
type one[T any] struct {
	Body T
}

func oneOf[T any](doc T, err error) (*one[T], error) {
	if err != nil {
		return nil, err
	}
	return &one[T]{Body: doc}, nil
}
