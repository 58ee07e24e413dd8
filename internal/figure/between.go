package figure

// Between spells between what a number will lie: "3", "2 to 5, likely 3", "at most 5", "likely 3". likely and high are negative where they
// are not known; "": neither is. spell spells a number.
func Between(low, likely, high int64, spell func(n int64) string) (text string) {
	switch {
	case high < 0 && likely < 0:
		return ""
	case low == high:
		return spell(low)
	case high < 0 && low > 1:
		text = "at least " + spell(low)
	case high < 0:
		return "likely " + spell(likely)
	case low > 1:
		text = spell(low) + " to " + spell(high)
	default:
		text = "at most " + spell(high)
	}
	if likely >= 0 {
		text += ", likely " + spell(likely)
	}
	return text
}
