package steps

import (
	"cmp"
	"slices"
	"strings"
)

// modelMark is before the names of labels with Label.Model in a text of labels.
const modelMark = "~"

// LabelsText returns labels as a text, in which each stands once, as it is kept with a value; "": there are none.
func LabelsText(list []Label) string {
	names := make([]string, len(list))
	for i, label := range list {
		if names[i] = label.Name; label.Model {
			names[i] = modelMark + label.Name
		}
	}
	slices.Sort(names)
	return strings.Join(slices.Compact(names), ",")
}

// ParseLabels returns the labels of a text of LabelsText.
func ParseLabels(text string) (list []Label) {
	if text == "" {
		return nil
	}
	for name := range strings.SplitSeq(text, ",") {
		plain, model := strings.CutPrefix(name, modelMark)
		list = append(list, Label{Name: plain, Model: model})
	}
	return list
}

// JoinLabels returns the labels that stand in one of the lists, each once, in order.
func JoinLabels(lists ...[]Label) []Label {
	all := slices.Concat(lists...)
	slices.SortFunc(all, func(a, b Label) int {
		if c := cmp.Compare(a.Name, b.Name); c != 0 || a.Model == b.Model {
			return c
		}
		if b.Model {
			return -1
		}
		return 1
	})
	return slices.Compact(all)
}
