//! The labels of findings.

use serde::{Deserialize, Serialize};

macro_rules! labels {
    ($($(#[$doc:meta])* $name:ident = $text:literal,)*) => {
        /// The kind of a finding.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        pub enum Label {
            $($(#[$doc])* #[serde(rename = $text)] $name,)*
        }

        impl Label {
            /// All labels.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// The label as texts and JSON show it.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                }
            }
        }
    };
}

labels! {
    /// A name of a person.
    PersonName = "PERSON_NAME",
    /// The age of a person.
    PersonAge = "PERSON_AGE",
    /// The day on which a person was born.
    DateOfBirth = "DATE_OF_BIRTH",
    /// Another date.
    Date = "DATE",
    /// An address, a place or a country.
    Location = "LOCATION",
    /// A company or an institution.
    Organization = "ORGANIZATION",
    /// The work of a person.
    Occupation = "OCCUPATION",
    /// The nationality of a person.
    Nationality = "NATIONALITY",
    /// The religion of a person.
    Religion = "RELIGION",
    /// The political side of a person.
    PoliticalAffiliation = "POLITICAL_AFFILIATION",
    /// An e-mail address.
    EmailAddress = "EMAIL_ADDRESS",
    /// A telephone number.
    PhoneNumber = "PHONE_NUMBER",
    /// A web address.
    Url = "URL",
    /// An address of the internet protocol.
    IpAddress = "IP_ADDRESS",
    /// A name of an account.
    Username = "USERNAME",
    /// A password, a PIN or a code that opens something.
    Password = "PASSWORD",
    /// A number of a customer or an account.
    AccountNumber = "ACCOUNT_NUMBER",
    /// An IBAN, a sort code or a routing number.
    BankingInformation = "BANKING_INFORMATION",
    /// A number of a payment card.
    CreditCardNumber = "CREDIT_CARD_NUMBER",
    /// The month in which a payment card expires.
    CreditCardExpiration = "CREDIT_CARD_EXPIRATION",
    /// The security code of a payment card.
    CreditCardCvv = "CREDIT_CARD_CVV",
    /// A social security number of the United States.
    UsSocialSecurityNumber = "US_SOCIAL_SECURITY_NUMBER",
    /// A number of a passport.
    PassportNumber = "PASSPORT_NUMBER",
    /// A number of a driver's license.
    DriversLicense = "DRIVERS_LICENSE",
    /// A number of a patient or of a health insurance.
    HealthcareNumber = "HEALTHCARE_NUMBER",
    /// A license plate or a vehicle's identification number.
    VehicleId = "VEHICLE_ID",
    /// A disease or a complaint.
    MedicalCondition = "MEDICAL_CONDITION",
    /// A treatment or an examination.
    MedicalProcess = "MEDICAL_PROCESS",
    /// A medicine.
    Drug = "DRUG",
    /// An amount of money.
    MoneyAmount = "MONEY_AMOUNT",
    /// An event with a name.
    Event = "EVENT",
    /// A language.
    Language = "LANGUAGE",
}

impl Label {
    /// The label with this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|label| label.name() == name)
    }

    /// True if its findings are codes: numbers, addresses of the network and the like.
    pub(super) fn is_code(self) -> bool {
        matches!(
            self,
            Self::EmailAddress
                | Self::PhoneNumber
                | Self::Url
                | Self::IpAddress
                | Self::AccountNumber
                | Self::BankingInformation
                | Self::CreditCardNumber
                | Self::CreditCardExpiration
                | Self::CreditCardCvv
                | Self::UsSocialSecurityNumber
                | Self::PassportNumber
                | Self::DriversLicense
                | Self::HealthcareNumber
                | Self::VehicleId
        )
    }

    /// True if redaction hides findings of this label when no labels are named.
    #[must_use]
    pub fn is_hidden_by_default(self) -> bool {
        !matches!(self, Self::Date | Self::Organization | Self::MoneyAmount | Self::Event | Self::Language)
    }
}
