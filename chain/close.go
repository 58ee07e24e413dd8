package chain

// journalAnswer completes an answer with the question and the time of a resume, and ends the account of the run.
func (s *request) journalAnswer(a *Answer) {
	a.Resumes = s.ledger.Resumes
	if s.ledger.Asks {
		a.Question = &Question{Run: s.ledger.Record.ID(), Proof: s.ledger.Proof(), Calls: approvalCalls(s.ledger.Waiting)}
	}
	tokens, storedTokens := s.answerTokens, s.keptTokens
	if s.ledger.Record != nil {
		if tokens == 0 {
			tokens = s.form.EstimateText(a.JSON)
		}
		if storedTokens == 0 && s.executed != nil {
			storedTokens = s.form.IntermediateTokens(s.executed.Facts())
		}
	}
	s.ledger.Close(a.Error, tokens, storedTokens)
}
