package scale

// comments explain the limits of the figures and name the ones where onecall is not first.
var comments = []string{
	"Until functions can be called onecall compiles the schema of each, with a validator that knows all drafts, so that what cannot be " +
		"checked is reported at the start and not by a call. That is nine tenths of the time in which it is behind the SDK's server. What it " +
		"keeps beyond the SDK's is its index of names and what a schema declares.",
	"The first search makes the index of words. A search scores every function that has one of its words: with the same words in a " +
		"constant share of all functions it is linear.",
	"Passing a byte on takes as long as some fifteen readings of it: on its way in it is checked to be JSON, in UTF-8, not too deep and " +
		"without blanks, and so it is as an argument, where it is held against the schema, too, and looked through for keys " +
		"that stand twice. The peak memory holds the result, the arguments made of it, and what the collector has not taken back.",
	"A chain of ten no-ops stands against *one* bare call: chains / calls of 1 means that ten times as many functions are called a " +
		"second. A bare call passes the SDK's server, a chain is answered past it.",
	"Clients call onecall's server as a Go program embeds it: without a journal, and without bounds of sessions and calls. " +
		"[Beside what users would pick instead](#beside-what-users-would-pick-instead) it is `onecall serve`.",
	"Clients call without a pause, so from some ten on the two cores are busy, and what is told as time is waiting: of 1,000 clients each " +
		"waits for 999 others. The clients have half of the processors' time.",
	"The answer with steps and usage gives up the steps that are ok where they do not fit the budget of 10,000 tokens: that of 1,000 steps " +
		"is shorter than that of 100.",
}
