// Package engine is the use cases: what people, agents and the clock ask of Holdfast, each as one transaction on
// the stored rows. It decides with the rules (state, run, access, …), stores through the interfaces it declares,
// and knows no SQL and no HTTP.
package engine
